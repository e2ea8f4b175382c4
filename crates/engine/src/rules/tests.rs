//! Tests of rule sets.

use super::*;

#[test]
fn smoke() {
    let set = RuleSet::shipped();
    println!("{set:#?}");
    println!("{:#?}", set.configs());
    println!("{:?}", Floors::of(&set.configs()));
}
