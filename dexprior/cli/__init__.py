"""The command line: `dexprior VERB [key=value]`, verbs in flow order. Hydra is known only here."""
