"""The HTTP API for other programs, compatible with existing clients."""

from starlette.convertors import StringConvertor, register_url_convertor


class NameConvertor(StringConvertor):
    """A name in a path, `{…:name}`, which may contain slashes."""

    regex = ".+"


register_url_convertor("name", NameConvertor())
