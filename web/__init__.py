"""The web interface: a thin layer over the engine and the storage. Start at `web.page.create_app`."""

from web.gradio_stubs import skip_stub_files
from web.proxies import make_proxies_readable

skip_stub_files()
make_proxies_readable()
