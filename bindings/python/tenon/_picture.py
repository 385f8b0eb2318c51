# SPDX-License-Identifier: Apache-2.0
"""Pictures of graphs and of the memory of programs, as the text of SVG files.

A graph is drawn in layers from top to bottom: a node is one layer below the last node that it
reads, and a variable one above its first reader. An edge over several layers gets a point in each
of them, which is placed like a node. Nodes of a layer are in the order of the mean position of
their neighbours.
"""

from html import escape

_MOST_NODES = 600
_GAP, _ROW, _HEIGHT = 18, 86, 40
_COLOURS = ["#dbe7ff", "#d9f2e3", "#fdebd2", "#ece2fb", "#fde0e4", "#d8f0f4", "#f0efcf"]
_STYLE = """<style>
.tenon text{font:12px system-ui,sans-serif;fill:#1d2433;text-anchor:middle}
.tenon .small{font-size:10.5px;fill:#566077} .tenon .box{stroke:#7d8aa5;stroke-width:1}
.tenon .head{stroke:#1d4ed8;stroke-width:2.2} .tenon .state{stroke-dasharray:4 3}
.tenon .piece{stroke-width:.5} .tenon .edge{fill:none;stroke:#9aa5b8;stroke-width:1.3}
</style>"""


class _Box:
    """A node, or a point of a long edge (node None)."""

    def __init__(self, node, width, layer):
        self.node, self.width, self.layer = node, width, layer
        self.above, self.below = [], []  # neighbours
        self.x = 0.0  # its centre


def _format_output(output):
    shape = output.get("shape")
    text = "" if shape is None else "(" + ",".join(
        "?" if each is None else str(each) for each in shape) + ")"
    return f"{output.get('dtype', '')} {text}".strip()


def _describe_node(node):
    """The two lines in the box of a node."""
    kind = node["op"].split("@")[0] if "op" in node else node["kind"]
    facts = _format_output(node["outputs"][0]) if node.get("outputs") else ""
    first = node["name"] if len(node["name"]) <= 34 else ".." + node["name"][-32:]
    if node["kind"] == "variable":
        return first, facts
    return first, " ".join(each for each in (kind, facts) if each)


def _list_sources(node):
    """Positions of the nodes that a node reads, each once."""
    entries = [each for key in ("inputs", "states") for each in node.get(key, ()) if each]
    return list(dict.fromkeys(each[0] for each in entries))


def _choose_layers(nodes):
    layers, readers = [0] * len(nodes), [[] for _ in nodes]
    for i, node in enumerate(nodes):
        sources = _list_sources(node)
        layers[i] = 1 + max((layers[each] for each in sources), default=-1)
        for each in sources:
            readers[each].append(i)
    for i, node in enumerate(nodes):
        if node["kind"] == "variable" and readers[i]:
            layers[i] = min(layers[each] for each in readers[i]) - 1
    return layers


def _make_boxes(nodes):
    """The boxes of each layer, and the chain of boxes of each edge."""
    layers = _choose_layers(nodes)
    boxes = [_Box(node, 28 + 6.9 * max(map(len, _describe_node(node))), layer)
             for node, layer in zip(nodes, layers)]
    rows = [[] for _ in range(1 + max(layers))]
    for box in boxes:
        rows[box.layer].append(box)
    edges = []
    for target, node in zip(boxes, nodes):
        for source in _list_sources(node):
            chain = [boxes[source]]
            for layer in range(boxes[source].layer + 1, target.layer):
                chain.append(_Box(None, 4, layer))
                rows[layer].append(chain[-1])
            chain.append(target)
            for upper, lower in zip(chain, chain[1:]):
                upper.below.append(lower)
                lower.above.append(upper)
            edges.append(chain)
    return rows, edges


def _place_row(row, wanted):
    """Places the boxes of a row in the order of the wanted centres, without overlaps."""
    row.sort(key=lambda box: wanted[box])
    right = None
    for box in row:
        left = wanted[box] - box.width / 2
        left = left if right is None else max(left, right + _GAP)
        box.x = left + box.width / 2
        right = left + box.width
    shift = sum(wanted[box] - box.x for box in row) / len(row)
    for box in row:
        box.x += shift


def _place_boxes(rows):
    for row in rows:
        _place_row(row, {box: 0.0 for box in row})
    for sweep in range(8):
        downwards = sweep % 2 == 0
        for row in rows if downwards else reversed(rows):
            wanted = {}
            for box in row:
                near = (box.above or box.below) if downwards else (box.below or box.above)
                wanted[box] = sum(each.x for each in near) / len(near) if near else box.x
            _place_row(row, wanted)


def _get_y(box):
    return 12 + _ROW * box.layer


def _draw_edge(chain):
    x, y = chain[0].x, _get_y(chain[0]) + _HEIGHT
    path = f"M{x:.0f} {y}"
    for box in chain[1:]:
        to = _get_y(box) + (0 if box.node else _HEIGHT / 2)
        middle = (y + to) / 2
        path += f"C{x:.0f} {middle:.0f} {box.x:.0f} {middle:.0f} {box.x:.0f} {to:.0f}"
        x, y = box.x, to
    return f'<path class="edge" d="{path}" marker-end="url(#tip)"/>'


def _draw_box(box, plugins, heads, states):
    node, y = box.node, _get_y(box)
    variable = node["kind"] == "variable"
    plugin = node["op"].split(".")[0] if "op" in node else node["kind"]
    fill = "#f4f6fa" if variable else _COLOURS[plugins.index(plugin) % len(_COLOURS)]
    names = "box" + (" head" if node["name"] in heads else "") + (
        " state" if node["name"] in states else "")
    first, second = _describe_node(node)
    text_y = y + (17 if second else 24)
    parts = [f'<g><title>{escape(node["name"])} {escape(node.get("params", ""))}</title>',
             f'<rect class="{names}" x="{box.x - box.width / 2:.0f}" y="{y}" '
             f'width="{box.width:.0f}" height="{_HEIGHT}" rx="{20 if variable else 7}" '
             f'fill="{fill}"/><text x="{box.x:.0f}" y="{text_y}">{escape(first)}</text>']
    if second:
        parts.append(f'<text class="small" x="{box.x:.0f}" y="{y + 32}">{escape(second)}</text>')
    return "".join(parts) + "</g>"


def _wrap(left, width, height, parts):
    tip = ('<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
           'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#9aa5b8"/></marker>'
           '</defs>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" class="tenon" width="{width:.0f}" '
            f'height="{height:.0f}" viewBox="{left:.0f} 0 {width:.0f} {height:.0f}">{_STYLE}{tip}'
            + "\n".join(parts) + "</svg>")


def _write_message(text):
    return _wrap(0, 12 + 7 * len(text), 30,
                 [f'<text x="{6 + 3.5 * len(text):.0f}" y="20">{escape(text)}</text>'])


def draw_graph(graph):
    """The picture of the dict of Graph.describe."""
    nodes = graph["nodes"]
    if not nodes:
        return _write_message("an empty graph")
    if len(nodes) > _MOST_NODES:
        return _write_message(f"a graph of {len(nodes)} nodes; a picture has at most {_MOST_NODES}")
    rows, edges = _make_boxes(nodes)
    _place_boxes(rows)
    boxes = [box for row in rows for box in row]
    plugins = list(dict.fromkeys(node["op"].split(".")[0] if "op" in node else node["kind"]
                                 for node in nodes if node["kind"] != "variable"))
    heads = {nodes[each[0]]["name"] for each in graph["heads"]}
    states = {nodes[each[0]]["name"] for node in nodes for each in node.get("states", ()) if each}
    left = min(box.x - box.width / 2 for box in boxes) - 12
    right = max(box.x + box.width / 2 for box in boxes) + 12
    parts = [_draw_edge(chain) for chain in edges]
    parts += [_draw_box(box, plugins, heads, states) for box in boxes if box.node]
    return _wrap(left, right - left, _ROW * len(rows) - _ROW + _HEIGHT + 24, parts)


def format_bytes(n):
    """"1.5 MiB" of 1572864."""
    for unit in ("bytes", "KiB", "MiB"):
        if n < 1024:
            return f"{n:.4g} {unit}"
        n /= 1024
    return f"{n:.4g} GiB"


def _list_pieces(program, device):
    """Pieces of memory on a device: name, colour, offset, bytes, first and last step."""
    owners, pieces = {}, []
    for i, step in enumerate(program["steps"]):
        for output in step["outputs"]:
            owners.setdefault(output.get("storage"), step["node"])
        if "workspace" in step and step["device"] == device:
            space = step["workspace"]
            pieces.append((f"workspace of {step['node']}", "#e6e9ef", space["offset"],
                           space["bytes"], i, i))
    for i, each in enumerate(program["storages"]):
        if each["device"] == device:
            pieces.append((owners.get(i, ""), _COLOURS[i % len(_COLOURS)], each["offset"],
                           each["bytes"], each["first"], each["last"]))
    return pieces


def _draw_piece(piece, scale):
    name, colour, offset, size, first, last = piece
    step, unit, bottom = scale
    height = max(1.5, unit * size)
    return (f'<g><title>{escape(name)}: {format_bytes(size)}, steps {first} to {last}</title>'
            f'<rect class="box piece" x="{70 + step * first:.1f}" '
            f'y="{bottom - unit * offset - height:.1f}" width="{step * (last - first + 1):.1f}" '
            f'height="{height:.1f}" fill="{colour}"/></g>')


def draw_plan(program):
    """The picture of the dict of Program.describe: memory of intermediate results, one diagram for
    each device."""
    steps, parts, top = program["steps"], [], 12.0
    width = max(360, min(1200, 14 * len(steps)))
    for pool in program["pools"]:
        if not pool["bytes"]:
            continue
        scale = (width / len(steps), 220 / pool["bytes"], top + 240)
        device = program["devices"][pool["device"]]
        parts.append(f'<text x="{70 + width / 2}" y="{top + 10}">{escape(device)}: '
                     f'{format_bytes(pool["bytes"])} in {len(steps)} steps</text>')
        parts.append(f'<text class="small" x="36" y="{top + 26}">{format_bytes(pool["bytes"])}'
                     f'</text><text class="small" x="52" y="{top + 240}">0</text>')
        middle = 70 + scale[0] * program["n_forward"]
        parts.append(f'<path class="edge" d="M70 {top + 20}V{top + 240}H{70 + width}"/>'
                     f'<path class="edge state" d="M{middle:.1f} {top + 20}V{top + 240}"/>')
        parts += [_draw_piece(each, scale) for each in _list_pieces(program, pool["device"])]
        top += 270
    if not parts:
        return _write_message("a program without memory for intermediate results")
    return _wrap(0, width + 90, top, parts)
