"""`python -m noria` is the command `noria`."""

from noria.cli import main

if __name__ == "__main__":
    main()
