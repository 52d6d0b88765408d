"""Data of others flows in: one module a format, one type for what each finds, one function that stores it."""

from dexprior.data.importers.base import (
    HandFit,
    ImportContext,
    Imported,
    Importer,
    ImportSettings,
    Mesh,
    Rejected,
    View,
)
from dexprior.data.importers.conversion import mesh_cloud, to_episode
from dexprior.data.importers.force_torque import (
    ForceTorque,
    Lag,
    SynchronisationConfig,
    find_lag,
    onto_clock,
    read_force_torque,
)
from dexprior.data.importers.table import IMPORTERS
from dexprior.data.importers.writing import (
    ImportSummary,
    import_dataset,
    import_episodes,
    read_record,
)

__all__ = [
    "IMPORTERS",
    "ForceTorque",
    "HandFit",
    "ImportContext",
    "ImportSettings",
    "ImportSummary",
    "Imported",
    "Importer",
    "Lag",
    "Mesh",
    "Rejected",
    "SynchronisationConfig",
    "View",
    "find_lag",
    "import_dataset",
    "import_episodes",
    "mesh_cloud",
    "onto_clock",
    "read_force_torque",
    "read_record",
    "to_episode",
]
