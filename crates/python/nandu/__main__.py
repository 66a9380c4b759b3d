"""`python -m nandu` is the command `nandu`."""

import sys

from nandu._cli import main

if __name__ == "__main__":
    sys.exit(main())
