//! Shape rules of the whole tree, held by a test that runs in milliseconds: who may import whom, what the
//! pure crates never name, how long files and functions may be, what first lines say, which pages are linked.
//!
//! [`check`] takes the root of a tree, so the tests in `planted` can show that each rule is able to fail.

#[path = "tidy/imports.rs"]
mod imports;
#[path = "tidy/planted.rs"]
mod planted;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/text.rs"]
mod text;

use std::path::Path;

/// One breach of a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    file: String,
    line: usize,
    rule: &'static str,
    what: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {} [{}]", self.file, self.line, self.what, self.rule)
    }
}

/// A text file of the tree, its path relative to the root, with `/`.
struct File {
    path: String,
    text: String,
}

impl File {
    fn has_extension(&self, any: &[&str]) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, e)| any.contains(&e))
    }

    fn finding(&self, line: usize, rule: &'static str, what: impl Into<String>) -> Finding {
        Finding { file: self.path.clone(), line, rule, what: what.into() }
    }
}

/// What version control does not hold, or what is no text of ours.
const NOT_OURS: [&str; 4] = [".git", "target", ".cache", "Cargo.lock"];

/// Everything that may stand at the top.
const TOP_LEVEL: [&str; 26] = [
    ".cargo",
    ".ci",
    ".github",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "benches",
    "build.rs",
    "clippy.toml",
    "crates",
    "dashboards",
    "dataflows",
    "deny.toml",
    "docker",
    "docs",
    "migrations",
    "rust-toolchain.toml",
    "rustfmt.toml",
    "scripts",
    "src",
    "tests",
    "tools",
];

/// Every breach in the tree at `root`, in order of file and line.
fn check(root: &Path) -> std::io::Result<Vec<Finding>> {
    let mut files = Vec::new();
    read_tree(root, "", &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let mut found = Vec::new();
    top_level(root, &mut found)?;
    for file in &files {
        text::check(file, &mut found);
    }
    text::pages(root, &files, &mut found);
    imports::check(&files, &mut found);
    found.sort();
    found.dedup();
    Ok(found)
}

/// Reads every text file under `root`; what is not UTF-8 (pictures, compressed data) is passed over.
fn read_tree(root: &Path, under: &str, files: &mut Vec<File>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(root.join(under))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if under.is_empty() { name.clone() } else { format!("{under}/{name}") };
        let kind = entry.file_type()?;
        if NOT_OURS.contains(&name.as_str()) || name.ends_with(".log") {
            continue;
        } else if kind.is_dir() {
            read_tree(root, &path, files)?;
        } else if kind.is_file()
            && let Ok(text) = String::from_utf8(std::fs::read(entry.path())?)
        {
            files.push(File { path, text });
        }
    }
    Ok(())
}

fn top_level(root: &Path, found: &mut Vec<Finding>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(root)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let known = TOP_LEVEL.contains(&name.as_str()) || NOT_OURS.contains(&name.as_str());
        if !known && !name.ends_with(".log") {
            let what = "no such entry is foreseen at the top; put it below one of the folders";
            found.push(Finding { file: name, line: 0, rule: "top-level", what: what.into() });
        }
    }
    Ok(())
}

#[test]
fn the_tree_is_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = check(root).expect("the tree can be read");
    let list: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{} breaches of tests/tidy.rs:\n{}", found.len(), list.join("\n"));
}
