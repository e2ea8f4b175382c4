//! Top K of the site: the K hottest of what each worker offers, kept by differential; only changes leave.

use crate::Time;
use crate::gauge::Gauge;
use crate::rooms::Hot;
use differential_dataflow::VecCollection;
use differential_dataflow::trace::implementations::{ValBatcher, ValBuilder, ValSpine};

/// The K least in the order of [`Hot`], that is the K hottest.
pub(crate) fn top<'s>(
    offered: VecCollection<'s, Time, Hot, isize>,
    k: usize,
    gauge: &mut Gauge,
) -> VecCollection<'s, Time, Hot, isize> {
    let offered = offered
        .map(|hot| ((), hot))
        .arrange_named::<ValBatcher<(), Hot, _, _>, ValSpine<(), Hot, _, _>>(
            "Offered",
            ValBatcher::new,
        );
    let top = offered
        .clone()
        .reduce_abelian::<_, ValBuilder<(), Hot, _, _>, ValSpine<(), Hot, _, isize>, _, _>(
            "Top",
            move |_, offered, out| {
                out.extend(offered.iter().take(k).map(|(hot, _)| ((*hot).clone(), 1)));
            },
            |vec, _, upds| {
                vec.clear();
                vec.extend(upds.drain(..).map(|(v, t, r)| (((), v), t, r)));
            },
        );
    gauge.watch(&offered.trace);
    gauge.watch(&top.trace);
    top.as_collection(|_, hot| hot.clone())
}
