# SPDX-License-Identifier: Apache-2.0
# Settings of Sphinx for the site that stage.py prepares.
project = "Tenon"
author = "The authors of Tenon"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
html_theme = "furo"
html_title = "Tenon"
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
# Shell sessions and parts of programs are not always whole files of their
# language.
suppress_warnings = ["misc.highlighting_failure"]
