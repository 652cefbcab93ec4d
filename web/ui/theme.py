"""The page's style: a theme with light and dark colours, and the style sheets of `web/static/styles`."""

from __future__ import annotations

from typing import Any

import gradio as gr

from web.ui.modules import STATIC


def launch_style() -> dict[str, Any]:
    """Return the style arguments of `launch`. No fonts or style sheets are loaded from other hosts."""
    sans = ("Inter", "ui-sans-serif", "system-ui", "Segoe UI", "Roboto", "Helvetica Neue", "sans-serif")
    mono = ("ui-monospace", "SFMono-Regular", "Consolas", "monospace")
    theme = gr.themes.Base(
        primary_hue="teal", secondary_hue="teal", neutral_hue="stone", radius_size="lg", font=sans, font_mono=mono
    )
    # Not as `css`: Gradio would rewrite every selector.
    return {"theme": theme.set(**_THEME), "head": f"<style>{styles()}</style>"}


def styles() -> str:
    """Return all style sheets, page.css first."""
    folder = STATIC / "styles"
    first = folder / "page.css"
    parts = sorted(path for path in folder.glob("*.css") if path != first)
    return "\n".join(path.read_text("utf-8") for path in (first, *parts))


_THEME = {
    "body_text_color_subdued": "*neutral_600",
    "body_text_color_subdued_dark": "*neutral_400",
    "block_info_text_color": "*neutral_600",
    "block_info_text_color_dark": "*neutral_400",
    "block_title_text_color": "*neutral_800",
    "block_title_text_color_dark": "*neutral_200",
    "button_secondary_background_fill": "white",
    "button_secondary_background_fill_dark": "*neutral_800",
    "button_secondary_background_fill_hover": "*neutral_100",
    "button_secondary_background_fill_hover_dark": "*neutral_700",
    "button_secondary_border_color": "*neutral_300",
    "button_secondary_border_color_dark": "*neutral_600",
    "button_border_width": "1px",
    "checkbox_border_color": "*neutral_500",  # 3:1 on its background (WCAG 1.4.11)
    "checkbox_border_color_dark": "*neutral_500",
    "slider_color": "*primary_600",
    "slider_color_dark": "*primary_500",
    "body_background_fill": "*neutral_50",
    "body_background_fill_dark": "*neutral_950",
    "block_background_fill": "white",
    "block_background_fill_dark": "*neutral_900",
    "block_border_width": "0px",
    "block_shadow": "none",
    "block_label_text_weight": "500",
    "block_title_text_weight": "500",
    "input_border_width": "1px",
    "input_radius": "10px",
    "input_background_fill": "*neutral_50",
    "input_background_fill_dark": "*neutral_800",
    "button_primary_background_fill": "*primary_700",
    "button_primary_background_fill_hover": "*primary_800",
    "button_primary_background_fill_dark": "*primary_700",
    "button_primary_background_fill_hover_dark": "*primary_800",
    "button_primary_text_color": "white",
    "button_primary_text_color_dark": "white",
}
