"""`python -m tpulayer`: the command `tpulayer`."""

from user_layers.cli.main import main

if __name__ == "__main__":
    main()
