//! The files of the live page, built into the program: no build step, no network.

/// A file: its path, its type, its text.
pub type File = (&'static str, &'static str, &'static str);

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// All files of the page.
pub const FILES: [File; 7] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/style.css", "text/css; charset=utf-8", include_str!("page/style.css")),
    ("/panels.css", "text/css; charset=utf-8", include_str!("page/panels.css")),
    ("/main.js", SCRIPT, include_str!("page/main.js")),
    ("/dom.js", SCRIPT, include_str!("page/dom.js")),
    ("/chart.js", SCRIPT, include_str!("page/chart.js")),
    ("/panels.js", SCRIPT, include_str!("page/panels.js")),
];

/// What the page may do: run its own scripts, wear its own styles, talk to where it came from.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                          connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
