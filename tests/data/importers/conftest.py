"""A MANO file with nothing of MANO in it, and what a command line hands to an importer."""

from __future__ import annotations

import pytest
from foreign_layouts import write_mano

from dexprior.data.importers import ImportSettings
from dexprior.pose.landmarks import hand_from_landmarks


@pytest.fixture(scope="session")
def mano(tmp_path_factory):
    return write_mano(tmp_path_factory.mktemp("mano"))


@pytest.fixture(scope="session")
def with_mano(mano):
    return ImportSettings(mano_right=str(mano["right"]), mano_left=str(mano["left"]))


@pytest.fixture(scope="session")
def fit():
    return hand_from_landmarks
