//! A source and where it stands: what follows or leads may have to go to another offset.

use crate::ingest::{Item, Poll, Source};

/// One partition's source.
pub(super) struct Tap {
    source: Box<dyn Source>,
    /// Offset after the last record handed out.
    at: u64,
}

impl Tap {
    pub(super) fn new(source: Box<dyn Source>) -> Self {
        let at = source.first_offset();
        Self { source, at }
    }

    /// Goes to an offset, unless it stands there.
    pub(super) fn go(&mut self, offset: u64) -> anyhow::Result<()> {
        if offset != self.at {
            let sought = self.source.seek(offset);
            sought.map_err(|what| anyhow::anyhow!("{}: {what}", self.source.name()))?;
            self.at = offset;
        }
        Ok(())
    }

    pub(super) fn poll(&mut self, max: usize, sink: &mut dyn FnMut(Item<'_>)) -> Poll {
        let at = &mut self.at;
        self.source.poll(max, &mut |item| {
            *at = item.offset + 1;
            sink(item);
        })
    }

    pub(super) fn source(&self) -> &dyn Source {
        self.source.as_ref()
    }
}
