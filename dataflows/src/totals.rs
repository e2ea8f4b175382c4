//! Totals of groups and of the site: what the workers say adds up in the difference, so the trace holds one row for
//! each group and one for the site, and nothing when there is nothing.

use crate::Time;
use crate::gauge::Gauge;
use crate::view::Tally;
use differential_dataflow::VecCollection;
use differential_dataflow::operators::CountTotal;
use differential_dataflow::trace::implementations::{KeyBatcher, KeySpine};

/// A group by name, or (none) the site.
pub(crate) type Subject = Option<String>;

/// Sums per subject.
pub(crate) fn totals<'s>(
    groups: VecCollection<'s, Time, String, Tally>,
    gauge: &mut Gauge,
) -> VecCollection<'s, Time, (Subject, Tally), isize> {
    let sums = groups
        .flat_map(|group| [Some(group), None])
        .map(|subject| (subject, ()))
        .arrange_named::<KeyBatcher<Subject, _, _>, KeySpine<Subject, _, _>>(
            "Totals",
            KeyBatcher::new,
        );
    gauge.watch(&sums.trace);
    sums.count_total()
}
