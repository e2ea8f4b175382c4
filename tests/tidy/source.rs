//! Reads Rust text just far enough for shape rules: code without comments and literals, functions, paths.

/// The code alone: comments, strings and characters are blanked, line ends stay where they are.
pub(crate) fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(bytes, at);
        if end > at {
            blank(&mut out[at..end]);
            at = end;
        } else {
            at += 1;
        }
    }
    String::from_utf8(out).expect("whole characters are blanked or kept")
}

/// Where the comment or literal that starts at `at` ends; `at` itself if none starts there.
fn literal_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let after_word = at > 0 && is_word(bytes[at - 1]);
    match rest[0] {
        b'/' if rest.starts_with(b"//") => at + find(rest, b"\n").unwrap_or(rest.len()),
        b'/' if rest.starts_with(b"/*") => at + block_comment(rest),
        b'"' => at + string(rest),
        b'r' if !after_word || matches!(bytes[at - 1], b'b' | b'c') => at + raw_string(rest),
        b'\'' => at + character(rest),
        _ => at,
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

fn string(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Length of a raw string `r"…"`, `r#"…"#`; 0 if it is none (a name, `r#type`).
fn raw_string(rest: &[u8]) -> usize {
    let hashes = rest[1..].iter().take_while(|b| **b == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return 0;
    }
    let close = [&b"\""[..], &vec![b'#'; hashes]].concat();
    let body = 2 + hashes;
    find(&rest[body..], &close).map_or(rest.len(), |n| body + n + close.len())
}

/// Length of a character literal; 0 for a lifetime.
fn character(rest: &[u8]) -> usize {
    let width = match rest.get(1) {
        Some(b'\\') => return 2 + find(&rest[3.min(rest.len())..], b"'").map_or(0, |n| n + 2),
        Some(b) if *b < 0x80 => 1,
        Some(b) => b.leading_ones() as usize,
        None => return 0,
    };
    if rest.get(1 + width) == Some(&b'\'') { width + 2 } else { 0 }
}

fn blank(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|b| **b != b'\n').for_each(|b| *b = b' ');
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|w| w == needle)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Line (from 1) of a byte position.
fn line_of(code: &str, at: usize) -> usize {
    code.as_bytes()[..at].iter().filter(|b| **b == b'\n').count() + 1
}

/// Blanks items that are compiled for tests only.
pub(crate) fn without_tests(code: &str) -> String {
    let mark = "#[cfg(test)]";
    let mut out = code.to_owned().into_bytes();
    let mut from = 0;
    while let Some(n) = code[from..].find(mark) {
        let start = from + n;
        let end = item_end(code.as_bytes(), start + mark.len());
        blank(&mut out[start..end]);
        from = end;
    }
    String::from_utf8(out).expect("whole characters are blanked or kept")
}

/// End of the item that follows: after its body's closing brace, or after its semicolon.
fn item_end(code: &[u8], from: usize) -> usize {
    let mut depth = 0;
    for (n, byte) in code[from..].iter().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b';' if depth == 0 => return from + n + 1,
            b'{' if depth == 0 => return braces_end(code, from + n),
            _ => {}
        }
    }
    code.len()
}

fn braces_end(code: &[u8], open: usize) -> usize {
    let mut depth = 0;
    for (n, byte) in code[open..].iter().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return open + n + 1;
        }
    }
    code.len()
}

/// A function with a body.
pub(crate) struct Function {
    pub(crate) name: String,
    /// Line of its `fn`.
    pub(crate) line: usize,
    /// Lines from `fn` to the closing brace.
    pub(crate) lines: usize,
}

/// All functions with a body, nested ones too. `code` is code only.
pub(crate) fn functions(code: &str) -> Vec<Function> {
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        if at > 0 && is_word(bytes[at - 1]) {
            continue;
        }
        let name: String =
            code[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let end = item_end(bytes, at);
        if !name.is_empty() && bytes[end - 1] == b'}' {
            let lines = code[at..end].matches('\n').count() + 1;
            found.push(Function { name, line: line_of(code, at), lines });
        }
    }
    found
}

/// A path as written, groups spelled out: `use std::{fs, net::TcpStream}` gives two.
#[derive(Debug, PartialEq)]
pub(crate) struct Path {
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// Every path and lone name of the code. `code` is code only.
pub(crate) fn paths(code: &str) -> Vec<Path> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < code.len() {
        at = if is_word(code.as_bytes()[at]) { path(code, at, "", &mut found) } else { at + 1 };
    }
    found
}

/// Reads the path that starts at `at`, and the group behind it; gives the position after.
fn path(code: &str, mut at: usize, prefix: &str, found: &mut Vec<Path>) -> usize {
    let bytes = code.as_bytes();
    let start = at;
    loop {
        while at < bytes.len() && is_word(bytes[at]) {
            at += 1;
        }
        if code[at..].starts_with("::") && bytes.get(at + 2).is_some_and(|b| is_word(*b)) {
            at += 2;
        } else {
            break;
        }
    }
    let text = format!("{prefix}{}", &code[start..at]);
    if code[at..].starts_with("::{") {
        return group(code, at + 3, &format!("{text}::"), found);
    }
    found.push(Path { line: line_of(code, start), text });
    at
}

fn group(code: &str, mut at: usize, prefix: &str, found: &mut Vec<Path>) -> usize {
    let bytes = code.as_bytes();
    let mut fresh = true;
    while at < bytes.len() {
        match bytes[at] {
            b'}' => return at + 1,
            b',' => {
                fresh = true;
                at += 1;
            }
            b if fresh && is_word(b) => {
                fresh = false;
                at = path(code, at, prefix, found);
            }
            _ => at += 1,
        }
    }
    at
}

#[test]
fn comments_and_literals_are_no_code() {
    let text = "let a = \"std::fs // {\"; // HashMap\n/* a /* b */ { */ let c = '{'; let d: &'a str = r#\"}\"#;\nlet e = '\\''; let f = b'\\\\'; 'ü'";
    let code = code_only(text);
    assert_eq!(code.len(), text.len());
    assert_eq!(code.lines().count(), text.lines().count());
    for gone in ["std", "HashMap", "{", "}", "ü", "\\"] {
        assert!(!code.contains(gone), "{gone:?} is left in {code:?}");
    }
    assert!(code.contains("let d: &'a str ="), "a lifetime is no literal: {code:?}");
}

#[test]
fn groups_are_spelled_out() {
    let found =
        paths("use std::{fs, net::{TcpStream as T, UdpSocket}};\nlet x = crate::api::get(y);");
    let at = |text: &str| found.iter().find(|p| p.text == text).map(|p| p.line);
    for (text, line) in [
        ("std::fs", 1),
        ("std::net::TcpStream", 1),
        ("std::net::UdpSocket", 1),
        ("crate::api::get", 2),
    ] {
        assert_eq!(at(text), Some(line), "{text} in {found:?}");
    }
}

#[test]
fn functions_are_measured_from_name_to_brace() {
    let code = code_only(
        "fn a(x: [u8; 2]) -> u8 {\n  x[0]\n}\ntrait T { fn no(&self); }\nconst F: fn(u8) = b;",
    );
    let found: Vec<_> = functions(&code).into_iter().map(|f| (f.name, f.line, f.lines)).collect();
    assert_eq!(found, [("a".to_owned(), 1, 3)]);
}

#[test]
fn tests_are_left_out() {
    let code = without_tests("use a::b;\n#[cfg(test)]\nmod tests {\n use c::d;\n}\nuse e::f;");
    assert!(code.contains("a::b") && code.contains("e::f") && !code.contains("c::d"), "{code}");
}
