//! The class of an event that names none: rules on its content (gift, command, else chat).
//!
//! A sender chooses the text, so this is a fallback: producers that know the class must name it.

use super::Text;
use crate::ids::Class;

/// Signs that stand for a gift.
const GIFT_EMOJI: [char; 3] = ['🎁', '💝', '🧧'];
/// Words that begin a command where no slash does.
const VERBS: [&str; 8] = ["点歌", "投票", "签到", "抽奖", "打卡", "!vote", "!join", "!play"];

/// The class of what was said.
#[must_use]
pub fn classify(text: &str) -> Class {
    let text = text.trim_start();
    if text.starts_with('/') {
        return Class::Command;
    }
    if text.is_ascii() {
        return if text.starts_with('!') && is_verb(text) { Class::Command } else { Class::Chat };
    }
    if is_gift(text) {
        return Class::Gift;
    }
    if is_verb(text) { Class::Command } else { Class::Chat }
}

/// The class by labels (`class`, `gift`, `combo`) where they tell, else by what was said.
pub(super) fn of_event(text: Option<&Text<'_>>, labels: Option<&str>) -> Class {
    if let Some(class) = labels.and_then(by_labels) {
        return class;
    }
    text.map_or(Class::Chat, |t| classify(&t.get()))
}

fn by_labels(labels: &str) -> Option<Class> {
    // Most labels tell nothing about the class: look at the bytes before taking the object apart.
    if !["\"class\"", "\"gift\"", "\"combo\""].iter().any(|name| labels.contains(name)) {
        return None;
    }
    let labels: std::collections::BTreeMap<String, serde_json::Value> =
        serde_json::from_str(labels).ok()?;
    let value = |name: &str| labels.get(name).and_then(serde_json::Value::as_str);
    if let Some(class) = value("class").and_then(Class::from_name) {
        return Some(class);
    }
    let given = |name: &str| value(name).is_some_and(|v| !matches!(v, "" | "0" | "false"));
    (given("gift") || given("combo")).then_some(Class::Gift)
}

/// "送出…" at the start of a word, a count before "连击" ("×3 连击", "x3连击"), or a gift's sign: in one pass.
fn is_gift(text: &str) -> bool {
    // The character before, and the last one before it that was no space.
    let (mut before, mut solid) = (' ', ' ');
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let follows = |next| chars.clone().next() == Some(next);
        let gift = match c {
            '送' => before.is_whitespace() && follows('出'),
            '连' => solid.is_ascii_digit() && follows('击'),
            _ => !c.is_ascii() && GIFT_EMOJI.contains(&c),
        };
        if gift {
            return true;
        }
        before = c;
        if !c.is_whitespace() {
            solid = c;
        }
    }
    false
}

fn is_verb(text: &str) -> bool {
    VERBS.iter().any(|verb| {
        text.strip_prefix(verb).is_some_and(|rest| {
            rest.is_empty() || rest.starts_with(|c: char| !c.is_ascii_alphanumeric())
        })
    })
}
