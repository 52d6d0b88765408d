"""The video diffusion prior over hand-object clips (not the behavioral prior of policies: see `dexprior.behavior`)."""
