"""Before Python 3.12 pydantic wants the TypedDict of typing_extensions; SkyRL takes the standard one."""

import typing

import typing_extensions

typing.TypedDict = typing_extensions.TypedDict
