//! Rules on text of any kind: first lines, lengths, leftovers, the changelog, links between pages.

use crate::{File, Finding};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// Longest file of code, in lines.
const FILE_LINES_MAX: usize = 600;

/// Shortest first line that can say something.
const PURPOSE_CHARS_MIN: usize = 12;

/// Marks of unfinished work; pieced together, so that this file holds none of them.
const MARKS: [&str; 4] =
    [concat!("XX", "X"), concat!("TO", "DO"), concat!("FIX", "ME"), concat!("to", "do!")];

/// Beginnings of paths that exist on one machine only; pieced together likewise.
const MACHINE: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// Checks one file by itself.
pub(crate) fn check(file: &File, found: &mut Vec<Finding>) {
    let lines = file.text.lines().count();
    if file.has_extension(&["rs", "sh", "py", "js", "css", "html"]) && lines > FILE_LINES_MAX {
        let what = format!("{lines} lines, at most {FILE_LINES_MAX}");
        found.push(file.finding(lines, "file-length", what));
    }
    first_line(file, found);
    leftovers(file, found);
    if file.path == "CHANGELOG.md" && !file.text.lines().any(|l| l.trim() == "## Unreleased") {
        found.push(file.finding(1, "changelog", "no section `## Unreleased`"));
    }
}

/// The first line (the second, after `#!`) is a comment that says what the file is for.
fn first_line(file: &File, found: &mut Vec<Finding>) {
    let mut lines = file.text.lines();
    let mut first = lines.next().unwrap_or("");
    let script = first.starts_with("#!") && !file.has_extension(&["rs"]);
    if script {
        first = lines.next().unwrap_or("");
    }
    let mark = if file.has_extension(&["rs"]) {
        "//"
    } else if script || file.has_extension(&["sh", "toml", "yml", "yaml", "py"]) {
        "#"
    } else {
        return;
    };
    let purpose =
        first.strip_prefix(mark).map(|rest| rest.trim_start_matches(['!', '/', '#']).trim());
    if purpose.is_none_or(|p| p.chars().count() < PURPOSE_CHARS_MIN) {
        let what = format!("the first line does not say, behind `{mark}`, what the file is for");
        found.push(file.finding(1, "first-line", what));
    }
}

fn leftovers(file: &File, found: &mut Vec<Finding>) {
    for (n, line) in file.text.lines().enumerate() {
        for mark in MARKS.iter().filter(|m| has_word(line, m)) {
            found.push(file.finding(n + 1, "leftover", format!("`{mark}` is left")));
        }
        for path in MACHINE.iter().filter(|p| line.contains(**p)) {
            let what = format!("`{path}` exists on one machine only");
            found.push(file.finding(n + 1, "machine-path", what));
        }
    }
}

/// Whether `word` stands in `line` by itself (`mktemp -t a.XX…` of six is a template, not a mark).
fn has_word(line: &str, word: &str) -> bool {
    let edge = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        edge(line[..at].chars().next_back()) && edge(line[at + word.len()..].chars().next())
    })
}

/// Links between pages: none is dead, and every page of `docs/` can be reached from the README.
pub(crate) fn pages(root: &Path, files: &[File], found: &mut Vec<Finding>) {
    let pages: Vec<&File> = files.iter().filter(|f| f.has_extension(&["md"])).collect();
    for page in &pages {
        for (line, target) in links(&page.text) {
            let path = resolve(&page.path, &target);
            if path.as_ref().is_none_or(|p| !root.join(p).exists()) {
                found.push(page.finding(line, "dead-link", format!("`{target}` leads nowhere")));
            }
        }
    }
    if !pages.iter().any(|p| p.path == "CHANGELOG.md") {
        let what = "there is no changelog".to_owned();
        found.push(Finding { file: "CHANGELOG.md".into(), line: 0, rule: "changelog", what });
    }
    let reached = reachable(&pages);
    for page in pages.iter().filter(|p| p.path.starts_with("docs/")) {
        if !reached.contains(&page.path) {
            found.push(page.finding(1, "lost-page", "no chain of links leads here from README.md"));
        }
    }
}

fn reachable(pages: &[&File]) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut next = vec!["README.md".to_owned()];
    while let Some(path) = next.pop() {
        let Some(page) = pages.iter().find(|p| p.path == path) else { continue };
        if reached.insert(path) {
            next.extend(links(&page.text).iter().filter_map(|(_, t)| resolve(&page.path, t)));
        }
    }
    reached
}

/// (line, target) of the relative links of a page, outside code.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (n, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        // Every second piece between backquotes is code.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for (at, _) in prose.match_indices("](") {
            let target = prose[at + 2..].split([')', ' ']).next().unwrap_or("");
            let outside = target.contains("://") || target.starts_with("mailto:");
            let file = target.split('#').next().unwrap_or("");
            if !outside && !file.is_empty() {
                found.push((n + 1, file.to_owned()));
            }
        }
    }
    found
}

/// The path, from the root, that a link in `page` leads to; none if it leaves the tree.
fn resolve(page: &str, target: &str) -> Option<String> {
    let mut path = PathBuf::from(page);
    path.pop();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => {
                if !path.pop() {
                    return None;
                }
            }
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path.to_string_lossy().into_owned())
}
