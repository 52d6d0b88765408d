"""Lets diffusers load this checkpoint where the package dexprior is installed:

DiffusionPipeline.from_pretrained(FOLDER, custom_pipeline=FOLDER, trust_remote_code=True)
"""

from dexprior.prior.sampling import HandObjectPipeline  # noqa: F401
