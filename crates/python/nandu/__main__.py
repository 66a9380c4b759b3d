"""`python -m nandu` is the command `nandu`."""

import sys

from nandu._cli import main

sys.exit(main())
