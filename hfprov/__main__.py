"""``python -m hfprov`` is the same as ``hfprov``."""

from hfprov.cli.app import main

main()
