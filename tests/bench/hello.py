"""The floor of a command line: the smallest application that typer can be."""

import typer


def main(name: str = "world") -> None:
    print(f"hello {name}")


if __name__ == "__main__":
    typer.run(main)
