"""Error masking: rules that say which turns are errors, and how right the rules are against labels.

A masked turn stays as input and carries no loss. A rule sees what was said and what came back, never the labels. A
legitimate diagnostic is not an error: running tests that fail, or reading what turns out wrong, is how work is done.
"""

from noria.stages.masking.labels import FAULTS as FAULTS
from noria.stages.masking.labels import Labelled as Labelled
from noria.stages.masking.labels import habitual as habitual
from noria.stages.masking.labels import injected as injected
from noria.stages.masking.labels import measure as measure
from noria.stages.masking.labels import spoil as spoil
from noria.stages.masking.rules import CODE as CODE
from noria.stages.masking.rules import DEFAULT as DEFAULT
from noria.stages.masking.rules import RULES as RULES
from noria.stages.masking.rules import errors as errors
