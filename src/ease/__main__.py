"""`python -m ease` is `ease`."""

from ease.cli import main

main()
