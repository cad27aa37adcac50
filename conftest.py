"""Root of all tests: pytester runs whole pytest sessions in a folder of their own."""

pytest_plugins = ["pytester"]
