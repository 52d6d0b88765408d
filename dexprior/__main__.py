"""`python -m dexprior VERB [key=value]`."""

import sys

from dexprior.cli.main import main

sys.exit(main())
