"use strict";
// Colours of C++, CUDA, Python and differences, by one expression a language: enough to read a kernel by. Every piece
// is a text node in a span.
(function() {
// An expression of named groups: {comment: /…/, words of a kind: "…"}. The first that fits a place names its colour.
function grammar(kinds) {
  const source = ([kind, what]) =>
      `(?<${kind}>${typeof what === "string" ? `\\b(?:${what.trim().split(/\s+/).join("|")})\\b` : what.source})`;
  return new RegExp(Object.entries(kinds).map(source).join("|"), "gm");
}

const CPP = grammar({
  comment: /\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/,
  string: /"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?/,
  meta: /^[ \t]*#[ \t]*\w+[^\n]*/,
  number: /\b(?:0x[0-9a-fA-F']+|\d[\d']*\.?\d*(?:[eE][+-]?\d+)?)[a-zA-Z]*/,
  device: "__\\w+ threadIdx blockIdx blockDim gridDim warpSize KHOST_\\w+ TORCH_\\w+ PYBIND11_\\w+",
  keyword: `alignas auto break case class const constexpr continue default do else enum extern for if inline namespace
    new operator private public return sizeof static static_cast reinterpret_cast struct switch template this throw
    typedef typename using virtual void volatile while true false nullptr`,
  type: `bool char double float half int long short signed unsigned size_t float[234] int[234] half2 u?int\\d+_t
    cudaStream_t dim3`
});
const PYTHON = grammar({
  comment: /#[^\n]*/,
  string: /[rbfu]{0,2}(?:"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)/,
  meta: /^[ \t]*@[\w.]+/,
  number: /\b\d[\d_]*\.?\d*(?:[eE][+-]?\d+)?\b/,
  keyword: `and as assert async await break class continue def del elif else except finally for from global if import
    in is lambda not or pass raise return try while with yield True False None self`,
  type: "torch nn F super int float str list tuple dict range len"
});
const LANGUAGES = {
  cpp: CPP,
  cuda: CPP,
  python: PYTHON
};
const BY_END = {
  cpp: "cpp",
  cc: "cpp",
  c: "cpp",
  h: "cpp",
  hpp: "cpp",
  cu: "cuda",
  cuh: "cuda",
  py: "python",
  diff: "diff"
};

khost.languageOf = (path) => BY_END[(/\.(\w+)$/.exec(path || "") || [])[1]] || "text";

// Beyond this many characters a text stays plain: an expression over it would hold up the page.
const MOST = 60000;

function coloured(text, expression) {
  const pieces = [];
  let last = 0;
  for (const match of text.matchAll(expression)) {
    if (match.index > last) pieces.push(text.slice(last, match.index));
    const kind = Object.keys(match.groups).find((name) => match.groups[name] !== undefined);
    pieces.push(khost.h("span", {class: "c-" + kind}, match[0]));
    last = match.index + match[0].length;
  }
  pieces.push(text.slice(last));
  return pieces;
}

function difference(text) {
  return text.replace(/\n$/, "").split("\n").map((line) => {
    const kind = line.startsWith("@@") ? "hunk" :
        /^(---|\+\+\+) /.test(line)    ? "file" :
        line[0] === "+"                ? "added" :
        line[0] === "-"                ? "removed" :
                                         "";
    return khost.h("span", {class: "line " + kind}, line + "\n");
  });
}

// A block of code with its name; `language` is cpp, cuda, python, diff or text.
khost.code = function(text, language, name) {
  const body = language === "diff"               ? difference(text) :
      LANGUAGES[language] && text.length <= MOST ? coloured(text, LANGUAGES[language]) :
                                                   text;
  const pre = khost.h("pre", {tabindex: "0", "aria-label": name || "code"}, khost.h("code", null, body));
  return khost.h("figure", {class: "code"}, name && khost.h("figcaption", null, name), pre);
};

// What a model wrote: fenced blocks as code, the rest as it is.
khost.prose = function(text) {
  const parts = [];
  let last = 0;
  for (const match of text.matchAll(/^```([^\n]*)\n([\s\S]*?)(?:^```[ \t]*$|(?![\s\S]))/gm)) {
    const before = text.slice(last, match.index).trim();
    if (before) parts.push(khost.h("p", {class: "prose"}, before));
    const [word, path] = match[1].trim().split(/\s+/);
    const language = path                    ? khost.languageOf(path) :
        word === "python" || word === "py"   ? "python" :
        word === "diff"                      ? "diff" :
        /^(cpp|c|c\+\+|cuda|cu)$/.test(word) ? "cpp" :
                                               "text";
    parts.push(khost.code(match[2], language === "text" && /^(cpp|cuda)$/.test(word) ? "cpp" : language, path || word));
    last = match.index + match[0].length;
  }
  const rest = text.slice(last).trim();
  if (rest) parts.push(khost.h("p", {class: "prose"}, rest));
  return parts;
};
})();
