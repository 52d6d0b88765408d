"""`dexprior evaluate-prior` as a file, for `accelerate launch` and debuggers."""

from dexprior.cli.main import run_script

if __name__ == "__main__":
    run_script("evaluate-prior")
