//! Who may import whom: between crates by their manifests, between folders of `src/` by their paths, and what
//! the pure crates never name.

use crate::source::{Path, code_only, functions, paths, without_tests};
use crate::{File, Finding};
use std::collections::BTreeSet;

/// Longest function, in lines.
const FUNCTION_LINES_MAX: usize = 70;

/// All that a crate may depend on (development dependencies apart). `barrage` itself may use every crate.
const MAY_DEPEND_ON: [(&str, &[&str]); 4] = [
    ("crates/protocol", &["serde", "serde_json", "thiserror", "xxhash-rust"]),
    (
        "crates/engine",
        &[
            "barrage-protocol",
            "blake3",
            "serde",
            "serde_json",
            "strsim",
            "thiserror",
            "toml",
            "toml_edit",
        ],
    ),
    (
        "crates/edge",
        &[
            "barrage-protocol",
            "crc32fast",
            "etcd-client",
            "serde",
            "serde_json",
            "thiserror",
            "tokio",
            "tracing",
            "xxhash-rust",
        ],
    ),
    (
        "dataflows",
        &["barrage-protocol", "barrage-engine", "serde", "timely", "differential-dataflow"],
    ),
];

/// The page that gives each dependency its reason.
const DEPENDENCIES: &str = "docs/decisions/0001-dependencies.md";

/// Libraries that have a home: (crate as written in paths, where it may be named).
const HOMES: [(&str, &[&str]); 8] = [
    ("timely", &["dataflows/", "src/worker/"]),
    ("differential_dataflow", &["dataflows/", "src/worker/"]),
    ("axum", &["src/api/", "src/demo/", "src/ops/", "src/gateway/"]),
    (
        "rdkafka",
        &["src/kafka.rs", "src/ingest/", "src/control/", "src/gateway/", "src/init/", "tests/"],
    ),
    ("etcd_client", &["src/publish/", "src/init/", "crates/edge/", "tests/"]),
    ("sqlx", &["src/audit/", "tests/"]),
    ("prometheus", &["src/ops/"]),
    ("clap", &["src/"]),
];

/// Sources of the crates whose results may depend on their arguments alone.
const PURE: [&str; 3] = ["crates/protocol/src/", "crates/engine/src/", "dataflows/src/"];

/// What they never name, and why.
const NEVER: [(&str, &str); 13] = [
    ("Instant", "time is an argument: a clock read inside makes a replay differ"),
    ("SystemTime", "time is an argument: a clock read inside makes a replay differ"),
    ("HashMap", "its order differs from run to run; use BTreeMap, or sort"),
    ("HashSet", "its order differs from run to run; use BTreeSet, or sort"),
    ("RandomState", "its seed differs from run to run"),
    ("std::fs", "input and output belong into src/"),
    ("std::net", "input and output belong into src/"),
    ("std::env", "settings are arguments"),
    ("std::process", "a decision cannot end the process"),
    ("std::thread", "threads are the host's affair"),
    ("std::io", "input and output belong into src/"),
    ("rand", "no randomness in decisions"),
    ("tokio", "no tasks in decisions"),
];

/// What lies under a banned module and is harmless: it asks whether a panic is under way, and reaches nothing.
const HARMLESS: [&str; 1] = ["std::thread::panicking"];

/// Where decisions are made, and the places in it that turn text into exact decimals.
const EXACT: [&str; 2] = ["crates/engine/src/", "dataflows/src/"];
const READS_DECIMALS: [&str; 2] = ["crates/engine/src/fixed.rs", "crates/engine/src/rules/"];

/// The one file that may hold `unsafe`: a hint to the processor that neither reads nor writes.
const UNSAFE: &str = "crates/engine/src/prefetch.rs";

/// Top-level modules of `src/` that wire the folders.
const WIRING: [&str; 4] = ["app", "cli", "lib", "main"];

/// Folders of `src/` that import no other and may be used by all, as the files beside the folders may.
const LEAVES: [&str; 1] = ["scenes"];

/// Checks manifests, imports, bans and function lengths.
pub(crate) fn check(files: &[File], found: &mut Vec<Finding>) {
    let reasons = files.iter().find(|f| f.path == DEPENDENCIES).map_or("", |f| f.text.as_str());
    let folders = folders(files);
    for file in files {
        if file.path.ends_with("Cargo.toml") {
            manifest(file, reasons, found);
        } else if file.has_extension(&["rs"]) {
            let code = code_only(&file.text);
            lengths(file, &code, found);
            let all = paths(&code);
            homes(file, &all, found);
            if file.path != UNSAFE {
                for path in all.iter().filter(|p| p.text == "unsafe") {
                    let what = format!("`unsafe` stands in {UNSAFE} alone");
                    found.push(file.finding(path.line, "unsafe", what));
                }
            }
            between_folders(file, &all, &folders, found);
            pure(file, &code, found);
        }
    }
}

/// Folders directly under `src/`.
fn folders(files: &[File]) -> BTreeSet<&str> {
    let inside = files.iter().filter_map(|f| f.path.strip_prefix("src/"));
    inside.filter_map(|p| p.split_once('/').map(|(folder, _)| folder)).collect()
}

fn lengths(file: &File, code: &str, found: &mut Vec<Finding>) {
    for f in functions(code).iter().filter(|f| f.lines > FUNCTION_LINES_MAX) {
        let what = format!("`{}` has {} lines, at most {FUNCTION_LINES_MAX}", f.name, f.lines);
        found.push(file.finding(f.line, "function-length", what));
    }
}

fn manifest(file: &File, reasons: &str, found: &mut Vec<Finding>) {
    let folder = file.path.trim_end_matches("Cargo.toml").trim_end_matches('/');
    let allowed = MAY_DEPEND_ON.iter().find(|(name, _)| *name == folder).map(|(_, list)| *list);
    for (line, section, name) in dependencies(&file.text) {
        if allowed.is_some_and(|list| section == "dependencies" && !list.contains(&name.as_str())) {
            let what = format!("{folder} may not depend on `{name}`");
            found.push(file.finding(line, "crate-import", what));
        }
        if !name.starts_with("barrage-") && !reasons.contains(&format!("`{name}`")) {
            let what = format!("`{name}` has no line with its reason in {DEPENDENCIES}");
            found.push(file.finding(line, "dependency-reason", what));
        }
    }
}

/// (line, kind of section, crate) of each dependency of a manifest.
fn dependencies(manifest: &str) -> Vec<(usize, String, String)> {
    let mut found = Vec::new();
    let mut section = String::new();
    for (n, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']').to_owned();
            // `[dependencies.name]` and `[target.'cfg(unix)'.dependencies.name]`
            if let Some((kind, name)) = section.rsplit_once('.') {
                let kind = kind.rsplit('.').next().unwrap_or(kind);
                if kind.ends_with("dependencies") {
                    found.push((n + 1, kind.to_owned(), name.to_owned()));
                }
            }
        } else if let Some((name, _)) = line.split_once('=') {
            let kind = section.rsplit('.').next().unwrap_or("");
            if kind.ends_with("dependencies") && !line.starts_with('#') {
                let name = name.trim().trim_matches('"').trim_end_matches(".workspace");
                found.push((n + 1, kind.to_owned(), name.to_owned()));
            }
        }
    }
    found
}

fn homes(file: &File, all: &[Path], found: &mut Vec<Finding>) {
    for (library, allowed) in HOMES {
        if allowed.iter().any(|home| file.path.starts_with(home)) {
            continue;
        }
        for path in all.iter().filter(|p| p.text.starts_with(&format!("{library}::"))) {
            let what = format!("`{library}` is named only in {}", allowed.join(", "));
            found.push(file.finding(path.line, "library-home", what));
        }
    }
}

/// The folders of `src/` do not import each other, and the files beside them import no folder.
fn between_folders(file: &File, all: &[Path], folders: &BTreeSet<&str>, found: &mut Vec<Finding>) {
    let Some(inside) = file.path.strip_prefix("src/") else { return };
    let own = inside.split_once('/').map_or(inside.trim_end_matches(".rs"), |(folder, _)| folder);
    if WIRING.contains(&own) {
        return;
    }
    let depth = inside.trim_end_matches("/mod.rs").split('/').count();
    for path in all {
        let Some(target) = from_root(&path.text, depth) else { continue };
        let folder = folders.contains(target) && !LEAVES.contains(&target);
        if target != own && (folder || WIRING.contains(&target)) {
            let what = format!("src/{own} may not import `{target}`; src/app joins them");
            found.push(file.finding(path.line, "module-import", what));
        }
    }
}

/// The top-level module that a path names, if it goes through the crate's root.
fn from_root(path: &str, depth: usize) -> Option<&str> {
    let mut parts = path.split("::").peekable();
    match parts.next()? {
        "crate" | "barrage" => parts.next(),
        "super" => {
            let mut ups = 1;
            while parts.next_if_eq(&"super").is_some() {
                ups += 1;
            }
            // Inline modules go deeper than the file, so more steps up are possible than `depth`.
            if ups >= depth { parts.next() } else { None }
        }
        _ => None,
    }
}

fn pure(file: &File, code: &str, found: &mut Vec<Finding>) {
    let for_tests = file.path.ends_with("/tests.rs") || file.path.contains("/tests/");
    if !PURE.iter().any(|p| file.path.starts_with(p)) || for_tests {
        return;
    }
    let exact = EXACT.iter().any(|p| file.path.starts_with(p))
        && !READS_DECIMALS.iter().any(|p| file.path.starts_with(p));
    for path in paths(&without_tests(code)) {
        if exact && path.text.split("::").any(|part| matches!(part, "f32" | "f64")) {
            let what = format!("`{}` in decisions: sums and thresholds are exact", path.text);
            found.push(file.finding(path.line, "float", what));
        }
        for (name, why) in NEVER {
            if names(&path.text, name) && !HARMLESS.contains(&path.text.as_str()) {
                let what = format!("`{}` is never named here: {why}", path.text);
                found.push(file.finding(path.line, "purity", what));
            }
        }
    }
}

/// Whether a path is, or goes through, what is banned: a type anywhere in it, a module at its start.
fn names(path: &str, banned: &str) -> bool {
    if banned.starts_with(char::is_uppercase) {
        path.split("::").any(|part| part == banned)
    } else {
        path.strip_prefix(banned).is_some_and(|rest| {
            rest.starts_with("::") || (rest.is_empty() && banned.contains("::"))
        })
    }
}
