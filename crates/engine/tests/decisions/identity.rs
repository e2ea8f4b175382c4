//! Identities, canonical form and running hash of decisions (semantics §9).

use crate::fixture::{Run, evenly, shipped};
use barrage_engine::decision::{
    Canon, Identity, canonical, chain, id, kind_name, scope_name, sort,
};
use barrage_protocol::decision::{Decision, Kind, Scope};
use barrage_protocol::ids::{Class, Slot};
use std::collections::{BTreeMap, BTreeSet};

fn base() -> Identity<'static> {
    Identity {
        rules_hash: "abc",
        rule: "burst",
        rule_version: 1,
        mode: "enforce",
        scope: Scope::Room,
        subject: "r_1",
        class: None,
        slot: Slot(17),
        kind: Kind::Level,
        from: "0",
        to: "1",
    }
}

#[test]
fn every_field_of_the_identity_counts_and_nothing_else() {
    let b = base();
    let all = [
        b,
        Identity { rules_hash: "abd", ..b },
        Identity { rule: "fast", ..b },
        Identity { rule_version: 2, ..b },
        Identity { mode: "shadow", ..b },
        Identity { scope: Scope::Site, ..b },
        Identity { subject: "r_2", ..b },
        Identity { class: Some(Class::Chat), ..b },
        Identity { slot: Slot(18), ..b },
        Identity { kind: Kind::Surge, ..b },
        Identity { from: "1", ..b },
        Identity { to: "2", ..b },
        // Moving a letter from one field to the next must not give the same bytes.
        Identity { rules_hash: "ab", rule: "cburst", ..b },
        Identity { from: "01", to: "", ..b },
    ];
    let ids: BTreeSet<_> = all.iter().map(id).collect();
    assert_eq!(ids.len(), all.len());
    assert_eq!(id(&b), id(&base()));
    let text = id(&b).to_string();
    assert_eq!(text.as_bytes()[14], b'8', "version 8: {text}");
    assert!(matches!(text.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "variant: {text}");
}

#[test]
fn the_encoding_is_length_prefixed() {
    // Written out once more, by hand, so that a change of the encoding cannot pass unseen.
    let b = base();
    let mut bytes = Vec::new();
    let numbers = [b.rule_version.to_le_bytes(), b.slot.0.to_le_bytes()];
    let fields: [&[u8]; 11] = [
        b"abc",
        b"burst",
        &numbers[0],
        b"enforce",
        b"room",
        b"r_1",
        b"",
        &numbers[1],
        b"level",
        b"0",
        b"1",
    ];
    for field in fields {
        bytes.extend((field.len() as u64).to_le_bytes());
        bytes.extend(field);
    }
    let mut expected = [0; 16];
    expected.copy_from_slice(&blake3::hash(&bytes).as_bytes()[..16]);
    expected[6] = expected[6] & 0x0f | 0x80;
    expected[8] = expected[8] & 0x3f | 0x80;
    assert_eq!(id(&b).0, expected);
}

#[test]
fn names_are_those_of_the_json() {
    for kind in
        [Kind::Level, Kind::Surge, Kind::Micro, Kind::BlastCap, Kind::FlapHold, Kind::FrozenLong]
    {
        assert_eq!(serde_json::to_value(kind).expect("a name"), kind_name(kind));
    }
    for scope in [Scope::Room, Scope::Service, Scope::Site] {
        assert_eq!(serde_json::to_value(scope).expect("a name"), scope_name(scope));
    }
}

fn storm() -> Vec<Decision> {
    let mut run = Run::new(shipped(), 17_000_000_000);
    for count in evenly(&[(120, 80_000), (1_440, 20_000), (120, 60_000)]) {
        run.close(count);
    }
    run.decisions
}

#[test]
fn each_decision_of_a_room_names_the_one_before_it() {
    let decisions = storm();
    assert!(decisions.len() >= 8);
    let mut prev = None;
    for d in &decisions {
        assert_eq!(d.prev, prev, "{d:?}");
        prev = Some(d.id);
    }
    let ids: BTreeSet<_> = decisions.iter().map(|d| d.id).collect();
    assert_eq!(ids.len(), decisions.len());
}

#[test]
fn canonical_json_is_sorted_closed_and_reads_back() {
    for d in storm() {
        let line = canonical(&d).expect("canonical");
        assert!(!line.contains(['\n', ' ']), "{line}");
        let back: Decision = serde_json::from_str(&line).expect("reads back");
        assert_eq!(back, d);
        assert_eq!(canonical(&back).expect("canonical"), line);
        let value: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let keys = |v: &serde_json::Value| -> Vec<String> {
            v.as_object().expect("an object").keys().cloned().collect()
        };
        for part in [&value, &value["evidence"]] {
            let mut at = 0;
            let mut sorted = keys(part);
            sorted.sort();
            for key in sorted {
                let found = line[at..].find(&format!("\"{key}\":"));
                at += found.unwrap_or_else(|| panic!("{key} is out of order in {line}"));
                if part["id"].is_string() && key == "evidence" {
                    // Beyond the inner object, whose keys must not be mistaken for outer ones.
                    at += canonical(&d).expect("canonical")[at..].find('}').expect("closed");
                }
            }
        }
    }
}

#[test]
fn the_running_hash_depends_on_every_line_and_on_their_order_only_by_slot() {
    let decisions = storm();
    let offsets = BTreeMap::from([(0, 12), (3, 7)]);
    let run = |reverse: bool, upto: usize| {
        let mut canon = Canon::default();
        let mut lines = Vec::new();
        for slot in decisions[..upto].iter().map(|d| d.slot).collect::<BTreeSet<_>>() {
            let mut of: Vec<_> =
                decisions[..upto].iter().filter(|d| d.slot == slot).cloned().collect();
            if reverse {
                of.reverse();
            }
            lines.extend(canon.append(slot, &mut of, &offsets));
        }
        (canon, lines)
    };
    let (whole, lines) = run(false, decisions.len());
    assert_eq!(run(true, decisions.len()), (whole.clone(), lines.clone()));
    assert_eq!(whole.decisions(), decisions.len() as u64);
    assert!(lines.iter().all(|l| l.contains(r#""offsets":{"0":12,"3":7}"#)));
    let (part, _) = run(false, decisions.len() - 1);
    assert_ne!(part.hash(), whole.hash());
    // What a checkpoint keeps is enough to go on from.
    let kept: Canon =
        serde_json::from_str(&serde_json::to_string(&part).expect("kept")).expect("taken up");
    let mut kept = kept;
    let mut last = vec![decisions[decisions.len() - 1].clone()];
    kept.append(last[0].slot, &mut last, &offsets);
    assert_eq!(kept.hash(), whole.hash());
    assert_eq!(whole.hash().len(), 64);
}

#[test]
fn canonical_order_is_slot_scope_subject_class_kind_rule() {
    let mut all = storm();
    let first = all[0].clone();
    let other = |change: &dyn Fn(&mut Decision)| {
        let mut d = first.clone();
        change(&mut d);
        d
    };
    all = vec![
        other(&|d| d.rule = "b".into()),
        other(&|d| d.rule = "a".into()),
        other(&|d| d.kind = Kind::FrozenLong),
        other(&|d| d.class = Some(Class::Chat)),
        other(&|d| d.subject = "a".into()),
        other(&|d| d.scope = Scope::Site),
        other(&|d| d.slot = Slot(1)),
    ];
    all.reverse();
    let expected = ["slot", "subject", "a", "b", "frozen", "class", "site"];
    sort(&mut all);
    let named: Vec<&str> = all
        .iter()
        .map(|d| match d {
            d if d.slot == Slot(1) => "slot",
            d if d.scope == Scope::Site => "site",
            d if d.subject == "a" => "subject",
            d if d.class.is_some() => "class",
            d if d.kind == Kind::FrozenLong => "frozen",
            d => d.rule.as_str(),
        })
        .collect();
    assert_eq!(named, expected);
    let last = chain(&mut all, None);
    assert_eq!(last, all.last().map(|d| d.id));
}
