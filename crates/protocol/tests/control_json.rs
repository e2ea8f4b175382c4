//! The control log's records as JSON: exact round trips, unknown fields ignored.

use barrage_protocol::control::{Control, Entry, Record, Step};
use barrage_protocol::ids::Slot;

fn step() -> Entry {
    Entry::Step(Step {
        schema: 1,
        epoch: 3,
        seq: 9,
        slot: Slot(17_000_000_000),
        offsets: [(0, 12), (11, u64::MAX)].into(),
        records: vec![
            Record { from: Slot(17_000_000_001), control: Control::Absent { partition: 11 } },
            Record {
                from: Slot(17_000_000_001),
                control: Control::Partitions { added: [(12, 0)].into() },
            },
        ],
        hash: "ab".into(),
        late: [(0, 0), (11, 7)].into(),
        done: Slot(16_999_999_999),
    })
}

#[test]
fn entries_come_back_as_they_were() {
    for entry in [step(), Entry::Lead { schema: 1, epoch: 3, seq: 0 }] {
        let text = serde_json::to_string(&entry).unwrap();
        assert_eq!(serde_json::from_str::<Entry>(&text).unwrap(), entry, "{text}");
    }
}

#[test]
fn a_later_version_is_read_as_far_as_it_is_known() {
    let text = r#"{"type":"step","schema":2,"epoch":1,"seq":1,"slot":7,"offsets":{"0":3},"hash":"","late":{},"done":6,
        "colour":"red","records":[{"from":8,"control":"schedule","until":9},{"from":8,"control":"absent","partition":1,"why":"x"}]}"#;
    let Entry::Step(step) = serde_json::from_str(text).unwrap() else { panic!("a step") };
    assert_eq!(step.records[0], Record { from: Slot(8), control: Control::Unknown });
    assert_eq!(step.records[1].control, Control::Absent { partition: 1 });
    assert!(serde_json::from_str::<Entry>(&text.replace("\"0\":3", "\"x\":3")).is_err());
}
