"""Families of documents: CSV, JSON, INI, Markdown, logs and letters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random

from noria.envs.claw import items
from noria.envs.claw.draw import CITIES, PEOPLE, SERVICES, STEMS, TITLES, WORDS, cells, csv, numbers, some
from noria.envs.claw.job import Family, Job, edit, read, sh


def filter_rows(rng: Random) -> Job:
    """The rows above a bound, header kept. The slip loses the header."""
    stem, header = rng.choice(STEMS), "name,city,points"
    points = numbers(rng, 7, 10, 99)
    bound = sorted(points)[rng.randint(2, 4)]  # one row is at the bound itself
    table = [(name, rng.choice(CITIES), point) for name, point in zip(some(rng, PEOPLE, 7), points, strict=True)]
    kept, source, out = [row for row in table if row[2] > bound], f"{stem}.csv", "high.csv"
    text = csv(header, table)
    return Job(
        ask=f"Write the rows of {source} with points over {bound} to {out}, header first, order kept.",
        files={source: text},
        checks=(items.rows(out, cells(header, kept)), items.same(source, text)),
        look=(sh(f"head -3 {source}"),),
        shell=(sh(f"awk -F, 'NR==1 || $3>{bound}' {source} > {out}"),),
        code=(
            f"rows = open('{source}').read().split()\n"
            f"keep = [r for r in rows[1:] if int(r.split(',')[2]) > {bound}]\n"
            f"open('{out}', 'w').write('\\n'.join(rows[:1] + keep) + '\\n')"
        ),
        slip=(sh(f"awk -F, 'NR>1 && $3>={bound}' {source} > {out}"),),
        made=(out,),
    )


def merge_files(rng: Random) -> Job:
    """Two lists into one, each id once, sorted. The slip appends."""
    header, names = "id,name", some(rng, PEOPLE, 8)
    rows = sorted([number, name] for number, name in zip(numbers(rng, 8, 10, 99), names, strict=True))
    shared = rng.sample(rows, 2)
    rest = [row for row in rows if row not in shared]
    first, second = rest[::2] + shared, rest[1::2] + shared
    rng.shuffle(first)
    rng.shuffle(second)
    a, b = some(rng, STEMS, 2)
    texts = {f"{a}.csv": csv(header, first), f"{b}.csv": csv(header, second)}
    return Job(
        ask=f"Merge {a}.csv and {b}.csv into all.csv: one header, each id once, sorted by id.",
        files=texts,
        checks=(items.rows("all.csv", cells(header, rows)), *(items.same(path, text) for path, text in texts.items())),
        look=(read(f"{a}.csv"), read(f"{b}.csv")),
        shell=(sh(f"(head -1 {a}.csv; tail -qn +2 {a}.csv {b}.csv | sort -u) > all.csv"),),
        code=(
            f"a, b = open('{a}.csv').read().split(), open('{b}.csv').read().split()\n"
            "open('all.csv', 'w').write('\\n'.join(a[:1] + sorted(set(a[1:] + b[1:]))) + '\\n')"
        ),
        slip=(sh(f"cat {a}.csv {b}.csv > all.csv"),),
        made=("all.csv",),
    )


def set_json(rng: Random) -> Job:
    """One nested value changed, one key removed. The slip forgets the second."""
    part, other = some(rng, SERVICES, 2)
    old, new = numbers(rng, 2, 10, 99)
    data = {part: {"port": old, "debug": True}, other: {"port": old, "debug": True}}
    want = {part: {"port": new}, other: {"port": old, "debug": True}}
    lines = [f'"{name}": {{"port": {old}, "debug": true}}' for name in data]
    text = "{\n  " + ",\n  ".join(lines) + "\n}\n"
    change = edit("conf.json", lines[0], f'"{part}": {{"port": {new}}}')
    return Job(
        ask=f"In conf.json set the port of {part} to {new} and remove its debug; leave all else.",
        files={"conf.json": text},
        checks=(
            items.value("conf.json", want),
            items.has("conf.json", rf'"{part}":\s*\{{\s*"port":\s*{new}\b', f"port of {part}"),
        ),
        look=(read("conf.json"),),
        shell=(change,),
        code=(
            "import json\nc = json.load(open('conf.json'))\n"
            f"c['{part}']['port'] = {new}\ndel c['{part}']['debug']\njson.dump(c, open('conf.json', 'w'), indent=2)"
        ),
        slip=(edit("conf.json", lines[0], lines[0].replace(f": {old},", f": {new},")),),
    )


def set_ini(rng: Random) -> Job:
    """One key of one section. The slip changes it in every section."""
    parts = some(rng, SERVICES, 3)
    old, new, other = numbers(rng, 3, 10, 99)
    want = {part: {"limit": str(old), "retry": str(other)} for part in parts}
    text = "".join(f"[{part}]\nlimit = {old}\nretry = {other}\n\n" for part in parts)
    want[parts[1]] = {"limit": str(new), "retry": str(other)}
    part = parts[1]
    return Job(
        ask=f"In app.ini set limit of section {part} to {new}; leave all else.",
        files={"app.ini": text},
        checks=(items.ini("app.ini", want),),
        look=(read("app.ini"),),
        shell=(edit("app.ini", f"[{part}]\nlimit = {old}", f"[{part}]\nlimit = {new}"),),
        code=(
            "from configparser import ConfigParser\nc = ConfigParser()\nc.read('app.ini')\n"
            f"c['{part}']['limit'] = '{new}'\nc.write(open('app.ini', 'w'))"
        ),
        slip=(sh(f"sed -i 's/limit = .*/limit = {new}/' app.ini"),),
    )


def headings(rng: Random) -> Job:
    """A table of contents. The slip keeps the marks."""
    titles, stem = some(rng, TITLES, 5), rng.choice(("guide", "manual", "readme"))
    text = "".join(f"{'#' * (1 + (i % 3 > 0))} {title}\n\nSee {title.lower()}.\n\n" for i, title in enumerate(titles))
    return Job(
        ask=f"List the headings of {stem}.md in toc.md, in order, one per line as '- Title'.",
        files={f"{stem}.md": text},
        checks=(items.text("toc.md", "".join(f"- {title}\n" for title in titles)), items.same(f"{stem}.md", text)),
        look=(sh(f"head -6 {stem}.md"),),
        shell=(sh(f"grep '^#' {stem}.md | sed 's/^#* /- /' > toc.md"),),
        code=(
            f"heads = [x for x in open('{stem}.md') if x.startswith('#')]\n"
            "open('toc.md', 'w').writelines('- ' + x.lstrip('# ') for x in heads)"
        ),
        slip=(sh(f"grep '^#' {stem}.md > toc.md"),),
        made=("toc.md",),
    )


def count_errors(rng: Random) -> Job:
    """Errors by service. The slip counts warnings too."""
    services = some(rng, SERVICES, 3)
    kinds = ["ERROR"] * 3 + ["WARN"] + ["ERROR", "WARN"] * 2 + ["ERROR"]
    lines = [(kind, services[i % 3]) for i, kind in enumerate(kinds)] + [("ERROR", rng.choice(services))]
    rng.shuffle(lines)
    log = "".join(
        f"{rng.randint(10, 23)}:{rng.randint(10, 59)} {kind} {name} {rng.choice(WORDS)}\n" for kind, name in lines
    )
    counts = {name: sum(line == ("ERROR", name) for line in lines) for name in sorted(services)}
    return Job(
        ask="Count the ERROR lines of each service in app.log; write 'service count' lines, sorted, to errors.txt.",
        files={"app.log": log},
        checks=(
            items.text("errors.txt", "".join(f"{name} {n}\n" for name, n in counts.items())),
            items.same("app.log", log),
        ),
        look=(sh("head -3 app.log"),),
        shell=(sh("awk '$2==\"ERROR\"{c[$3]++} END{for(s in c) print s,c[s]}' app.log | sort > errors.txt"),),
        code=(
            "from collections import Counter\nrows = [x.split() for x in open('app.log')]\n"
            "c = Counter(r[2] for r in rows if r[1] == 'ERROR')\n"
            "open('errors.txt', 'w').writelines(f'{k} {n}\\n' for k, n in sorted(c.items()))"
        ),
        slip=(sh("awk '{c[$3]++} END{for(s in c) print s,c[s]}' app.log | sort > errors.txt"),),
        made=("errors.txt",),
    )


def rename_files(rng: Random) -> Job:
    """A pattern of names. The slip copies and leaves the old ones."""
    names, mark = some(rng, PEOPLE, 4), rng.choice(("draft", "old", "tmp"))
    texts = {f"{mark}-{name}.txt": f"{name} {rng.randint(10, 99)}\n" for name in names[:3]}
    other = {f"{names[3]}.txt": f"{names[3]} {rng.randint(10, 99)}\n"}
    made = tuple(f"{name}.md" for name in names[:3])
    loop = f'for f in {mark}-*.txt; do n="${{f#{mark}-}}"; %s "$f" "${{n%%.txt}}.md"; done'
    return Job(
        ask=f"Rename every {mark}-NAME.txt to NAME.md; contents and other files stay.",
        files=texts | other,
        checks=(
            *(items.text(path, text) for path, text in zip(made, texts.values(), strict=True)),
            *map(items.gone, texts),
            *(items.same(path, text) for path, text in other.items()),
        ),
        look=(sh("ls"),),
        shell=(sh(loop % "mv"),),
        code=(f"import glob, os\nfor f in glob.glob('{mark}-*.txt'):\n os.rename(f, f[{len(mark) + 1}:-4] + '.md')"),
        slip=(sh(loop % "cp"),),
    )


def collect_todos(rng: Random) -> Job:
    """Marked lines of several files, with the file's name. The slip leaves the name out."""
    texts: dict[str, str] = {}
    for title in sorted(some(rng, [title.lower() for title in TITLES], 3)):
        lines = [f"NOTE {rng.choice(WORDS)} {rng.randint(10, 99)}", f"{rng.choice(WORDS)} {rng.randint(10, 99)}"]
        lines += [f"all {rng.choice(WORDS)}"]
        rng.shuffle(lines)
        texts[f"{title}.md"] = "\n".join(lines) + "\n"
    want = "".join(f"{path}:{line}\n" for path, text in texts.items() for line in text.split("\n") if "NOTE" in line)
    return Job(
        ask="Collect the lines with NOTE of all .md files in notes.txt, each as file:line, files in order of name.",
        files=texts,
        checks=(items.text("notes.txt", want), *(items.same(path, text) for path, text in texts.items())),
        look=(sh("head -2 *.md"),),
        shell=(sh("grep NOTE *.md > notes.txt"),),
        code=(
            "import glob\nhits = [f + ':' + x for f in sorted(glob.glob('*.md')) for x in open(f) if 'NOTE' in x]\n"
            "open('notes.txt', 'w').writelines(hits)"
        ),
        slip=(sh("grep -h NOTE *.md > notes.txt"),),
        made=("notes.txt",),
    )


def letters(rng: Random) -> Job:
    """A template filled for each row of a list. The slip fills in the name alone."""
    names, sums = some(rng, PEOPLE, 3), numbers(rng, 3, 10, 99)
    head, tail = rng.choice(("Dear", "Hello", "Hi")), rng.choice(("Pay soon.", "Thank you.", "Call us."))
    template = f"{head} NAME,\nyou owe SUM.\n{tail}\n"
    people = csv("name,sum", list(zip(names, sums, strict=True)))
    want = {
        f"out/{name}.txt": template.replace("NAME", name).replace("SUM", str(total))
        for name, total in zip(names, sums, strict=True)
    }
    loop = 'mkdir -p out; tail -n +2 p.csv | while IFS=, read n s; do sed "%s" form.txt > out/$n.txt; done'
    return Job(
        ask="Fill form.txt for each row of p.csv (NAME by name, SUM by sum) into out/<name>.txt.",
        files={"form.txt": template, "p.csv": people},
        checks=(
            *(items.text(path, text) for path, text in want.items()),
            items.same("form.txt", template), items.same("p.csv", people),
        ),
        look=(read("form.txt"), read("p.csv")),
        shell=(sh(loop % "s/NAME/$n/; s/SUM/$s/"),),
        code=(
            "import os\nos.makedirs('out', exist_ok=True)\nform = open('form.txt').read()\n"
            "for row in open('p.csv').read().split()[1:]:\n n, s = row.split(',')\n"
            " open(f'out/{n}.txt', 'w').write(form.replace('NAME', n).replace('SUM', s))"
        ),
        slip=(sh(loop % "s/NAME/$n/"),),
        made=tuple(want),
    )  # fmt: skip


def redact(rng: Random) -> Job:
    """Addresses out of a text. The slip takes one of each line."""
    names = some(rng, PEOPLE, 5)
    lines = [
        f"Ask {names[0]}@mail.org or {names[1]}@web.net.",
        f"{names[2]} is {rng.choice(WORDS)}.",
        f"From {names[3]}@mail.org: {rng.choice(WORDS)}.",
        f"{names[4]} has {rng.randint(10, 99)}.",
    ]
    rng.shuffle(lines)
    text = "\n".join(lines) + "\n"
    want = text
    for name in names:
        want = want.replace(f"{name}@mail.org", "[mail]").replace(f"{name}@web.net", "[mail]")
    address = "[a-z]+@[a-z]+\\.[a-z]+"
    return Job(
        ask="In memo.txt put [mail] in place of every mail address; leave all else.",
        files={"memo.txt": text},
        checks=(items.text("memo.txt", want), items.lacks("memo.txt", "@", "no address left")),
        look=(read("memo.txt"),),
        shell=(sh(f"sed -Ei 's/{address}/[mail]/g' memo.txt"),),
        code=(
            f"import re\nt = open('memo.txt').read()\nopen('memo.txt', 'w').write(re.sub(r'{address}', '[mail]', t))"
        ),
        slip=(sh(f"sed -Ei 's/{address}/[mail]/' memo.txt"),),
    )


def log_to_json(rng: Random) -> Job:
    """Lines `key=value` into a JSON object of whole numbers. The slip writes texts."""
    keys, amounts = some(rng, WORDS, 4), numbers(rng, 4, 10, 99)
    data = dict(zip(keys, amounts, strict=True))
    text = "".join(f"{key}={amount}\n" for key, amount in data.items())
    read_all = "d = dict(x.strip().split('=') for x in open('stats.log'))\n"
    dump = "json.dump(%s, open('stats.json', 'w'))"
    right = f"import json\n{read_all}{dump % '{k: int(v) for k, v in d.items()}'}"
    return Job(
        ask="Turn the lines key=number of stats.log into a JSON object of whole numbers, stats.json.",
        files={"stats.log": text},
        checks=(items.value("stats.json", data), items.same("stats.log", text)),
        look=(read("stats.log"),),
        shell=(("write", {"path": "stats.json", "text": json.dumps(data) + "\n"}),),
        code=right,
        slip=(("python", {"code": f"import json\n{read_all}{dump % 'd'}"}),),
        made=("stats.json",),
    )


FAMILIES: Mapping[str, Family] = {
    "filter_rows": filter_rows, "merge_files": merge_files, "set_json": set_json, "set_ini": set_ini,
    "headings": headings, "count_errors": count_errors, "rename_files": rename_files, "letters": letters,
    "redact": redact, "log_to_json": log_to_json, "collect_todos": collect_todos,
}  # fmt: skip
