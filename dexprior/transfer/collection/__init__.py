"""The collection plan: which real data to collect next, and whether they closed the gap."""

from dexprior.transfer.collection.belief import (
    UNKNOWN,
    Belief,
    Contribution,
    Noise,
    PairCounts,
    check_probabilities,
    read_probabilities,
)
from dexprior.transfer.collection.planning import (
    CollectionPlan,
    PlanConfig,
    Step,
    best_next,
    normal_width,
    plan_collection,
)
from dexprior.transfer.collection.preregistration import Panel, Verdict, judge, preregister, preregistration_hash
from dexprior.transfer.collection.protocols import PROTOCOLS, Protocol, Recorded, read_protocols
from dexprior.transfer.collection.reading import Reading, read_back, read_plan, write_manifest
from dexprior.transfer.collection.report import information_figure, width_figure, write_plan
from dexprior.transfer.collection.sheet import (
    ABORTS,
    ARMS,
    BLOCK,
    COMPARISON,
    RESULTS,
    VERIFY,
    VERIFY_ARMS,
    Trial,
    make_trials,
    read_sheet,
    write_sheet,
)

__all__ = [
    "ABORTS",
    "ARMS",
    "BLOCK",
    "COMPARISON",
    "PROTOCOLS",
    "RESULTS",
    "UNKNOWN",
    "VERIFY",
    "VERIFY_ARMS",
    "Belief",
    "CollectionPlan",
    "Contribution",
    "Noise",
    "PairCounts",
    "Panel",
    "PlanConfig",
    "Protocol",
    "Reading",
    "Recorded",
    "Step",
    "Trial",
    "Verdict",
    "best_next",
    "check_probabilities",
    "information_figure",
    "judge",
    "make_trials",
    "normal_width",
    "plan_collection",
    "preregister",
    "preregistration_hash",
    "read_back",
    "read_plan",
    "read_probabilities",
    "read_protocols",
    "read_sheet",
    "width_figure",
    "write_manifest",
    "write_plan",
    "write_sheet",
]
