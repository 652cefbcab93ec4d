"""The web interface: a thin layer over the engine and the storage. Start at `web.page.create_app`."""

from web.gradio_import import make_import_quick
from web.proxies import make_proxies_readable

make_import_quick()
make_proxies_readable()
