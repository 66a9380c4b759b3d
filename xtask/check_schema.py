"""Holds every stack file against the JSON schema, with a validator that is not ours.

Usage: check_schema.py SCHEMA.json   (in the root of the checkout)
"""

import json
import pathlib
import sys
import tomllib

import jsonschema

schema = json.loads(pathlib.Path(sys.argv[1]).read_text())
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
files = sorted(pathlib.Path("stacks").glob("*.toml"))
wrong = 0
for file in files:
    for error in validator.iter_errors(tomllib.loads(file.read_text())):
        wrong += 1
        print(f"{file}: {'.'.join(map(str, error.absolute_path))}: {error.message}")

# The schema must also refuse: a slip in a key is what it is there for.
broken = tomllib.loads(files[0].read_text())
next(iter(broken["device"].values()))["no_such_option"] = 1
if validator.is_valid(broken):
    wrong += 1
    print("the schema accepts an unknown key")

print(f"{len(files)} stack files, {wrong} faults")
sys.exit(bool(wrong))
