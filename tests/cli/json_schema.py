# SPDX-License-Identifier: Apache-2.0
"""As much of JSON Schema as docs/schema uses, so that the tests need no package for it.

errors(schema, document, defs) gives the places where a document is not what the schema says. A
keyword that is not known here is an error too: a check that is not made must not pass for one.
"""

import re

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
WORDS = {"$schema", "$id", "title", "description", "type", "properties", "patternProperties",
         "additionalProperties", "propertyNames", "required", "items", "anyOf", "oneOf", "enum",
         "const", "$ref", "$defs"}


def is_type(value, name):
    if name in ("integer", "number"):
        return (isinstance(value, int) or (isinstance(value, float) and
                                           (name == "number" or value.is_integer()))
                ) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def errors(schema, value, defs, place=""):
    unknown = set(schema) - WORDS
    if unknown:
        yield f"{place}: the schema has {sorted(unknown)}, which this validator does not know"
    if "$ref" in schema:
        yield from errors(defs[schema["$ref"].removeprefix("#/$defs/")], value, defs, place)
    for word in ("anyOf", "oneOf"):
        if word in schema:
            found = [list(errors(one, value, defs, place)) for one in schema[word]]
            fit = sum(not one for one in found)
            if not fit:
                yield from min(found, key=len)
            elif word == "oneOf" and fit > 1:
                yield f"{place}: {fit} of oneOf fit"
    if "const" in schema and value != schema["const"]:
        yield f"{place}: {value!r} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: {value!r} is not one of {schema['enum']}"
    if "type" in schema:
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(is_type(value, name) for name in types):
            yield f"{place}: {str(value)[:60]!r} is not {' or '.join(types)}"
            return
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from errors(schema.get("items", {}), item, defs, f"{place}[{i}]")
    if isinstance(value, dict):
        yield from _object(schema, value, defs, place)


def _object(schema, value, defs, place):
    for key in schema.get("required", ()):
        if key not in value:
            yield f"{place}: '{key}' is missing"
    for key, item in value.items():
        here = f"{place}.{key}"
        if "propertyNames" in schema:
            yield from errors(schema["propertyNames"], key, defs, here)
        fits = [schema["properties"][key]] if key in schema.get("properties", {}) else []
        fits += [one for pattern, one in schema.get("patternProperties", {}).items()
                 if re.search(pattern, key)]
        for one in fits:
            yield from errors(one, item, defs, here)
        rest = schema.get("additionalProperties", True)
        if not fits and rest is False:
            yield f"{here}: not in the schema; add it there with a description"
        elif not fits and rest is not True:
            yield from errors(rest, item, defs, here)
