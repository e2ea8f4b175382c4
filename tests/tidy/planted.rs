//! Each shape rule is able to fail: one breach is planted in a clean tree, and that one is found.

use crate::{Finding, check};
use std::path::{Path, PathBuf};

/// A small tree without a breach.
const CLEAN: [(&str, &str); 14] = [
    ("README.md", "# Title\n\n[how](docs/how.md) [build](ARCHITECTURE.md)\n"),
    ("ARCHITECTURE.md", "# Map\n\n`[not a link](nowhere.md)`\n"),
    ("CHANGELOG.md", "# Changelog\n\n## Unreleased\n"),
    ("docs/how.md", "# How\n\n[why](decisions/0001-dependencies.md) [home](../README.md#title)\n"),
    ("docs/decisions/0001-dependencies.md", "| `serde` | `timely` | `axum` |\n"),
    ("Cargo.toml", "# The program and its workspace.\n[dependencies]\naxum = \"0.8\"\n"),
    ("crates/engine/Cargo.toml", "# Pure decisions only.\n[dependencies]\nserde = \"1\"\n"),
    (
        "crates/engine/src/lib.rs",
        "//! Pure decisions, nothing else.\n//! No HashMap, no std::fs.\n",
    ),
    ("src/main.rs", "//! Entry point of the program.\nuse barrage::app;\nfn main() {}\n"),
    ("src/app/mod.rs", "//! Joins the folders of the program.\nuse crate::{api, ingest};\n"),
    (
        "src/api/mod.rs",
        "//! Answers requests over HTTP.\nuse axum::Router;\nuse crate::{config, scenes};\n",
    ),
    ("src/scenes/mod.rs", "//! The scenes of a match night.\nmod cast;\n"),
    ("src/ingest/mod.rs", "//! Reads events from sources.\nmod file;\n"),
    ("scripts/run", "#!/bin/sh\n# Runs what there is to run.\n"),
];

/// A tree in a temporary directory, gone when dropped.
struct Tree(PathBuf);

impl Tree {
    fn clean(name: &str) -> Self {
        let tree =
            Self(std::env::temp_dir().join(format!("barrage-tidy-{}-{name}", std::process::id())));
        for (path, text) in CLEAN {
            tree.plant(path, text);
        }
        tree
    }

    fn plant(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("make a folder");
        std::fs::write(path, text).expect("write a file");
    }

    fn findings(&self) -> Vec<Finding> {
        check(&self.0).expect("the tree can be read")
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Plants `text` at `path` and expects exactly one breach: of `rule`, there, in `line`.
fn caught(rule: &'static str, path: &str, text: &str, line: usize) {
    let tree = Tree::clean(&format!("{rule}-{}", path.replace('/', "-")));
    tree.plant(path, text);
    let found: Vec<_> =
        tree.findings().into_iter().map(|f| (f.rule, f.file.clone(), f.line, f)).collect();
    assert_eq!(found.len(), 1, "{rule} in {path}: {found:?}");
    let (got, file, at, _) = &found[0];
    assert_eq!((*got, file.as_str(), *at), (rule, path, line), "{found:?}");
}

#[test]
fn a_clean_tree_has_no_breach() {
    assert_eq!(Tree::clean("clean").findings(), []);
}

#[test]
fn a_forbidden_import_between_folders_is_found() {
    let head = "//! Reads events from sources.\n";
    for import in [
        "use crate::api;",
        "use crate::{ingest::file, api::page};",
        "fn f() { crate::api::get(); }",
        "use super::api;",
        "use barrage::api::Page;",
        "#[cfg(test)]\nmod tests { use super::super::api; }",
    ] {
        let line = 2 + usize::from(import.starts_with('#'));
        caught("module-import", "src/ingest/mod.rs", &format!("{head}{import}\n"), line);
    }
    caught("module-import", "src/ingest/file.rs", &format!("{head}use super::super::api;\n"), 2);
    caught("module-import", "src/scenes/mod.rs", &format!("{head}use crate::api;\n"), 2);
    caught("module-import", "src/config.rs", &format!("{head}use crate::ingest::file;\n"), 2);
    caught("module-import", "src/api/page.rs", &format!("{head}use crate::app::Drive;\n"), 2);
}

#[test]
fn a_forbidden_dependency_between_crates_is_found() {
    let path = "crates/engine/Cargo.toml";
    let head = "# Pure decisions only.\n[dependencies]\nserde = \"1\"\n";
    caught("crate-import", path, &format!("{head}timely.workspace = true\n"), 4);
    caught("crate-import", path, &format!("{head}barrage-edge = {{ workspace = true }}\n"), 4);
    caught("crate-import", path, &format!("{head}[dependencies.axum]\nversion = \"0.8\"\n"), 4);
    caught("dependency-reason", path, &format!("{head}[dev-dependencies]\nleft = \"1\"\n"), 5);
}

#[test]
fn a_library_outside_its_home_is_found() {
    let head = "//! Reads events from sources.\n";
    caught("library-home", "src/ingest/mod.rs", &format!("{head}use timely::dataflow;\n"), 2);
    caught("library-home", "src/app/mod.rs", &format!("{head}fn f() -> axum::Router {{}}\n"), 2);
}

#[test]
fn what_the_pure_crates_never_name_is_found() {
    for breach in [
        "use std::time::Instant;",
        "use std::time::{Duration, SystemTime};",
        "use std::collections::HashMap;",
        "fn f() { std::fs::read(\"x\"); }",
        "use std::{net::TcpStream};",
        "use rand::rng;",
    ] {
        let text = format!("//! Pure decisions, nothing else.\n{breach}\n");
        caught("purity", "crates/engine/src/lib.rs", &text, 2);
        caught("purity", "dataflows/src/top.rs", &text, 2);
    }
}

#[test]
fn a_float_in_decisions_is_found() {
    let head = "//! Pure decisions, nothing else.\n";
    caught("float", "crates/engine/src/lib.rs", &format!("{head}fn f(x: f64) {{}}\n"), 2);
    caught("float", "dataflows/src/top.rs", &format!("{head}const E: u8 = f32::EPSILON;\n"), 2);
}

#[test]
fn unsafe_code_is_found() {
    let text = "//! Reads events from sources.\nfn f() { unsafe { g() } }\n";
    caught("unsafe", "src/ingest/file.rs", text, 2);
}

#[test]
fn a_file_of_601_lines_is_found_and_one_of_600_is_not() {
    let text = |lines: usize| format!("//! Reads events from sources.\n{}", "\n".repeat(lines - 1));
    caught("file-length", "src/ingest/mod.rs", &text(601), 601);
    let tree = Tree::clean("600");
    tree.plant("src/ingest/mod.rs", &text(600));
    assert_eq!(tree.findings(), []);
}

#[test]
fn a_function_of_71_lines_is_found_and_one_of_70_is_not() {
    let text = |lines: usize| {
        format!(
            "//! Reads events from sources.\nfn long() {{\n{}}}\n",
            "    // {\n".repeat(lines - 2)
        )
    };
    caught("function-length", "src/ingest/mod.rs", &text(71), 2);
    let tree = Tree::clean("70");
    tree.plant("src/ingest/mod.rs", &text(70));
    assert_eq!(tree.findings(), []);
}

#[test]
fn a_first_line_without_a_purpose_is_found() {
    caught("first-line", "src/ingest/file.rs", "use std::fmt;\n", 1);
    caught("first-line", "src/ingest/file.rs", "//! File.\n", 1);
    caught("first-line", "scripts/run", "#!/bin/sh\nset -e\n", 1);
    caught("first-line", "deny.toml", "[licenses]\n", 1);
}

#[test]
fn leftovers_and_machine_paths_are_found() {
    let head = "//! Reads events from sources.\n";
    let cases = [
        ("leftover", concat!("fn f() { to", "do!() }")),
        ("leftover", concat!("// XX", "X later")),
        ("machine-path", concat!("const P: &str = \"/wo", "rk/x\";")),
    ];
    for (rule, text) in cases {
        caught(rule, "src/ingest/file.rs", &format!("{head}{text}\n"), 2);
    }
    let tree = Tree::clean("template");
    tree.plant(
        "scripts/run",
        concat!("#!/bin/sh\n# Runs what there is to run.\nmktemp a.XX", "XXXX\n"),
    );
    assert_eq!(tree.findings(), [], "a template is no mark");
}

#[test]
fn an_unforeseen_entry_at_the_top_is_found() {
    caught("top-level", "notes.txt", "later\n", 0);
}

#[test]
fn a_changelog_without_unreleased_is_found() {
    caught("changelog", "CHANGELOG.md", "# Changelog\n\n## 0.1.0\n", 1);
}

#[test]
fn dead_links_and_lost_pages_are_found() {
    caught("dead-link", "ARCHITECTURE.md", "# Map\n\n[gone](docs/gone.md)\n", 3);
    caught(
        "dead-link",
        "docs/how.md",
        "[why](decisions/0001-dependencies.md)\n[out](../../x)\n",
        2,
    );
    caught("lost-page", "docs/alone.md", "# Alone\n", 1);
}
