//! Sizes of differential's traces, read at 1 Hz of event time through handles that are advanced each time: a handle
//! that is kept and not advanced holds every update for ever.

use crate::Time;
use differential_dataflow::operators::arrange::TraceAgent;
use differential_dataflow::trace::implementations::spine_fueled::SpineBatch;
use differential_dataflow::trace::{Trace, TraceReader};
use timely::progress::Antichain;

/// Updates and batches held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) updates: usize,
    pub(crate) batches: usize,
}

type Look = Box<dyn FnMut(&Antichain<Time>) -> Held>;

/// Handles of the traces of one worker.
#[derive(Default)]
pub(crate) struct Gauge(Vec<Look>);

impl Gauge {
    /// Watches a trace.
    pub(crate) fn watch<Tr>(&mut self, trace: &TraceAgent<Tr>)
    where
        Tr: Trace<Time = Time, Batch: SpineBatch> + 'static,
    {
        let mut trace = trace.clone();
        self.0.push(Box::new(move |upto| {
            trace.set_logical_compaction(upto.borrow());
            trace.set_physical_compaction(upto.borrow());
            let mut held = Held::default();
            trace.map_spans(|span| {
                if let Some(batch) = &span.inner {
                    held.updates += batch.len();
                    held.batches += 1;
                }
            });
            held
        }));
    }

    /// Lets go of what lies before the slot, and says what is held.
    pub(crate) fn read(&mut self, upto: Time) -> Held {
        let upto = Antichain::from_elem(upto);
        self.0.iter_mut().map(|look| look(&upto)).fold(Held::default(), |sum, held| Held {
            updates: sum.updates + held.updates,
            batches: sum.batches + held.batches,
        })
    }
}
