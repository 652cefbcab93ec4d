"""Reprise's speech engine: clone a voice from a clip, speak any text in it, as a stream.

Import `Engine` from `engine.engine`; this package stays light so that the voice format can be used without torch.
"""
