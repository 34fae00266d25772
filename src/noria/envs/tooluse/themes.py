"""Words that domains are composed of: settings, lifecycles and verbs.

A setting is its name, then things | places | people | stores | orders | goods. A good is
`quantity unit pack`. A verb belongs to one kind of tool, so that a tool's name tells its kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Setting:
    """The nouns of a walk of life. `goods` are (quantity, unit, pack)."""

    name: str
    things: tuple[str, ...]
    places: tuple[str, ...]
    people: tuple[str, ...]
    stores: tuple[str, ...]
    orders: tuple[str, ...]
    goods: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """States and the steps between them, each (from, to, verb). Work is done in the first state.

    `fits` names what has such a life: "p" people, "t" things, "s" places and stores.
    """

    fits: str
    states: tuple[str, ...]
    steps: tuple[tuple[str, str, str], ...]


_SETTINGS = """
library: book map journal atlas | shelf hall vault | reader member clerk |
  cabinet rack | loan hold | paper sheet ream; ink bottle box
clinic: scanner monitor pump bed | ward room bay | nurse doctor patient |
  cupboard fridge | visit referral | vaccine dose tray; gauze roll carton
warehouse: pallet crate forklift scanner | aisle dock zone | picker driver packer |
  bin silo | shipment pickup | stock piece case; tape roll box
hotel: suite key cart safe | floor wing lobby | guest porter maid |
  pantry minibar | booking stay | towel piece stack; soap bar pack
garage: car van lift jack | pit bay ramp | mechanic owner tester |
  tank drum | repair job | oil litre can; bolt piece bag
school: laptop globe easel projector | classroom lab gym | pupil teacher tutor |
  locker trunk | course trip | chalk stick box; book copy set
farm: tractor plough goat trailer | barn field meadow | farmer vet shepherd |
  silo trough | harvest sale | feed sack pallet; milk litre churn
bakery: oven mixer tray mould | counter kitchen cellar | baker seller trainee |
  hopper bread_bin | cake_order batch | flour bag stack; roll piece dozen
museum: statue vase coin mask | gallery wing depot | curator guard guide |
  vitrine chest | tour exhibit_loan | ticket piece block; leaflet copy bundle
airport: jet tug stair loader | gate hangar stand | pilot agent loader_hand |
  hydrant depot | flight charter | fuel tonne truck; meal piece trolley
harbour: ship crane barge buoy | berth quay lock | captain pilot docker |
  bunker tank | call_order charter | coal tonne wagon; rope metre coil
theatre: costume lamp prop drum | stage foyer attic | actor dresser usher |
  wardrobe chest | show rehearsal | seat piece row; paint pot crate
brewery: kettle keg press filter | cellar hall yard | brewer taster cooper |
  vat cask | brew tasting | beer litre barrel; malt sack pallet
printshop: plotter press cutter stapler | shopfloor loft desk | printer editor binder |
  rack drawer | print_job proof | toner unit box; card sheet pack
zoo: lion parrot turtle otter | cage aviary pond | keeper vet visitor |
  larder freezer | feeding checkup | fish kilo crate; hay bale stack
gym: treadmill rower bench bike | hall studio court | trainer member coach |
  shelf_unit crate | session lesson | mat piece stack; water bottle case
cinema: film reel speaker lens | screen hall lounge | usher critic viewer |
  kiosk stand | screening preview | popcorn bag box; seat piece row
post: parcel letter bag van | depot counter round | courier clerk sender |
  pillar sorter | delivery return | stamp piece sheet; label piece roll
laboratory: microscope probe centrifuge laser | bench chamber cleanroom | chemist student analyst |
  freezer rack | assay trial | reagent vial tray; tip piece box
vineyard: barrel press cart pruner | slope cellar terrace | vintner picker cooper |
  cask tank | tasting vintage | wine litre cask_load; cork piece bag
hospital: ventilator stretcher drip bed | theatre ward corridor | surgeon nurse porter |
  cabinet store_room | operation transfer_order | blood bag cooler; mask piece carton
observatory: telescope camera dome sensor | site tower room | astronomer guest operator |
  archive disk_array | observation survey | film plate case; coolant litre flask
orchestra: violin cello harp flute | hall pit studio | player soloist conductor |
  chest cabinet | concert rehearsal | score copy set; string piece pack
restaurant: table stove grill terrace_seat | kitchen patio room | waiter cook guest |
  fridge cellar | meal party | plate piece stack; wine bottle case
nursery: cot pram swing toy | room garden loft | carer parent child |
  cupboard basket | visit outing | nappy piece pack; milk bottle crate
shipyard: hull crane welder mast | dock slip loft | welder_hand rigger foreman |
  store_shed rack | refit launch | steel plate stack; paint can pallet
mine: drill wagon winch lamp | shaft level pit | miner foreman blaster |
  hopper magazine | shift_order blast | ore tonne wagonload; fuse piece box
station: train wagon engine railcar | platform track depot | driver guard shunter |
  tank bunker | trip transfer_run | sand kilo sack; ticket piece roll
stable: horse saddle cart mare | paddock box_stall ring | rider groom farrier |
  hayloft bin | lesson ride | oats kilo sack; hay bale stack
studio: camera mixer lamp guitar | booth set stage | engineer artist producer |
  rack case | recording shoot | tape reel box; cable piece bundle
nursery_garden: rose shrub pot mower | bed greenhouse yard | gardener buyer planter |
  barrel shed | planting sale | soil litre sack; seed packet box
court: file exhibit case_box recorder | chamber archive hall | judge clerk lawyer |
  safe cabinet | hearing appeal | folder piece box; seal piece set
embassy: passport visa pouch seal | office annex gate | consul courier applicant |
  vault drawer | audience request | form sheet pad; card piece pack
fishery: trawler net trap skiff | pier pond basin | skipper fisher buyer |
  icebox tank | catch auction | cod kilo crate; ice kilo bag
foundry: furnace mould ladle hoist | line hall yard | caster smelter checker |
  hopper crucible | cast pour | iron ingot pallet; sand kilo sack
tailor: suit gown coat machine | room counter attic | cutter client sewer |
  wardrobe bobbin_box | fitting alteration | cloth metre bolt; button piece card
bank: safe terminal ledger_book card | branch vault desk | teller client auditor |
  till reserve | payout deposit_order | note piece bundle; coin piece roll
campsite: tent cabin canoe bike | field lakeside grove | camper ranger cook |
  woodpile gas_rack | stay rental | wood log stack; gas bottle crate
depot: bus tram truck trailer | lane hall yard | driver washer planner |
  tank battery_room | route charter | diesel litre drum; tyre piece set
datacentre: server router switch blade | row cage room | admin tenant engineer |
  array pool | lease migration | disk unit shelf_load; quota unit block
newsroom: story photo column clip | desk page archive | editor reporter reader |
  queue tray | issue feature | word line column_inch; copy piece bundle
florist: bouquet vase wreath basket | window counter cooler | florist client driver |
  bucket crate | delivery wedding | tulip stem bunch; ribbon metre reel
"""

LIFECYCLES: tuple[Lifecycle, ...] = (
    Lifecycle("s", ("open", "closed"), (("open", "closed", "close"), ("closed", "open", "reopen"))),
    Lifecycle("p", ("active", "paused"), (("active", "paused", "pause"), ("paused", "active", "resume"))),
    Lifecycle("s", ("unlocked", "locked"), (("unlocked", "locked", "lock"), ("locked", "unlocked", "unlock"))),
    Lifecycle(
        "ts", ("ready", "running", "worn"),
        (("ready", "running", "start"), ("running", "ready", "stop"), ("running", "worn", "wear"),
         ("worn", "ready", "mend")),
    ),
    Lifecycle(
        "ts", ("clean", "soiled", "soaking"),
        (("clean", "soiled", "soil"), ("soiled", "soaking", "soak"), ("soaking", "clean", "rinse")),
    ),
    Lifecycle(
        "pt", ("approved", "draft", "archived"),
        (("draft", "approved", "approve"), ("approved", "draft", "revise"), ("approved", "archived", "archive"),
         ("archived", "draft", "restore")),
    ),
    Lifecycle("ts", ("online", "offline"), (("online", "offline", "disconnect"), ("offline", "online", "connect"))),
    Lifecycle(
        "ts", ("sealed", "loose", "checked"),
        (("loose", "checked", "check"), ("checked", "sealed", "seal"), ("sealed", "loose", "unseal")),
    ),
    Lifecycle(
        "ts", ("warm", "cold", "hot"),
        (("cold", "warm", "warm"), ("warm", "hot", "heat"), ("hot", "warm", "cool"), ("warm", "cold", "chill")),
    ),
    Lifecycle("s", ("fresh", "stale"), (("fresh", "stale", "expire"), ("stale", "fresh", "renew"))),
    Lifecycle("ps", ("enabled", "blocked"), (("enabled", "blocked", "block"), ("blocked", "enabled", "unblock"))),
    Lifecycle(
        "t", ("tested", "raw", "rejected"),
        (("raw", "tested", "test"), ("tested", "raw", "reset"), ("raw", "rejected", "reject"),
         ("rejected", "raw", "readmit")),
    ),
    Lifecycle(
        "t", ("docked", "away", "returning"),
        (("docked", "away", "send"), ("away", "returning", "recall"), ("returning", "docked", "dock")),
    ),
    Lifecycle("ts", ("visible", "hidden"), (("visible", "hidden", "hide"), ("hidden", "visible", "reveal"))),
    Lifecycle(
        "p", ("trained", "new", "certified"),
        (("new", "trained", "train"), ("trained", "certified", "certify"), ("certified", "trained", "decertify")),
    ),
    Lifecycle("p", ("awake", "asleep"), (("awake", "asleep", "rest"), ("asleep", "awake", "wake"))),
    Lifecycle("t", ("charged", "empty"), (("charged", "empty", "drain"), ("empty", "charged", "charge"))),
    Lifecycle("p", ("on_duty", "off_duty"), (("on_duty", "off_duty", "dismiss"), ("off_duty", "on_duty", "summon"))),
)  # fmt: skip

#: Kind of a tool -> the verbs that name it; lifecycle verbs are of the kind "step".
VERBS: Mapping[str, tuple[str, ...]] = {
    "list": ("list",),
    "get": ("get", "read", "show"),
    "find": ("find", "search"),
    "count": ("count",),
    "add": ("add", "refill", "supply", "stock"),
    "take": ("take", "draw", "remove", "use"),
    "transfer": ("transfer", "shift", "decant"),
    "place": ("move", "put", "relocate"),
    "assign": ("assign", "lend", "give", "hand"),
    "pass": ("pass", "reassign", "forward"),
    "restart": ("restart", "normalise"),
    "release": ("release", "return", "free", "collect"),
    "create": ("create", "book", "place", "request"),
    "cancel": ("cancel", "withdraw", "revoke"),
    "finish": ("finish", "complete", "fulfil"),
    "change": ("change", "amend", "adjust"),
    "set": ("set", "update", "fix"),
}
READS = ("list", "get", "find", "count")

STATE_NAMES = ("state", "status", "mode", "phase")
ROOM_NAMES = ("room", "slots", "spaces", "seats")
QUOTA_NAMES = ("quota", "allowance", "ceiling")
RANK_NAMES = ("rank", "level", "grade")
NEED_NAMES = ("need", "risk", "care")
CAP_NAMES = ("cap", "limit", "dose_limit")
AMOUNT_NAMES = ("amount", "quantity", "size")
#: Free attributes: a name and its values, or its range.
ENUM_ATTRIBUTES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("colour", ("red", "blue", "green")),
    ("tariff", ("basic", "plus", "gold")),
    ("language", ("english", "french", "polish")),
    ("shift", ("early", "late", "night")),
    ("label", ("fragile", "heavy", "plain")),
    ("side", ("left", "right", "middle")),
)
INT_ATTRIBUTES: tuple[tuple[str, int, int], ...] = (
    ("priority", 1, 5), ("price", 1, 60), ("rating", 1, 9), ("age", 1, 40), ("delay", 1, 30), ("weight", 1, 50),
)  # fmt: skip
PLACES_OF_DOMAINS = (
    "north", "south", "old", "new", "harbour", "hill", "river", "city", "village", "island", "night", "royal",
    "summer", "winter", "garden", "forest", "market", "bridge", "canal", "valley",
)  # fmt: skip
PACK_SIZES = (4, 5, 6, 8, 10, 12)


@lru_cache(maxsize=1)
def settings() -> tuple[Setting, ...]:
    """Every setting of the pool."""
    return tuple(_setting(line) for line in _SETTINGS.strip().replace("|\n ", "|").splitlines())


@lru_cache(maxsize=1)
def kinds_by_verb() -> dict[str, str]:
    """Verb -> the kind of tools that it names."""
    found = {verb: kind for kind, verbs in VERBS.items() for verb in verbs}
    for lifecycle in LIFECYCLES:
        found.update({verb: "step" for _, _, verb in lifecycle.steps})
    return found


def plural(noun: str) -> str:
    """The plural of a noun of the pool, as a table is named."""
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    if noun.endswith(("s", "x", "ch", "sh", "z")):
        return noun + "es"
    return noun[:-1] + "ves" if noun.endswith("lf") else noun + "s"


def _setting(line: str) -> Setting:
    name, _, rest = line.partition(": ")
    things, places, people, stores, orders, goods = (part.strip() for part in rest.split("|"))
    words = [tuple(part.split()) for part in (things, places, people, stores, orders)]
    triples = tuple((quantity, unit, pack) for quantity, unit, pack in (good.split() for good in goods.split("; ")))
    return Setting(name, words[0], words[1], words[2], words[3], words[4], triples)
