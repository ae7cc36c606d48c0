//! The nearest of many candidates, whose exact distances are measured only as far as necessary.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The number of neighbours at equal distances beyond the count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ties {
    /// The search yields no more than the count; of candidates at the same distance, those that came first.
    #[default]
    Cut,
    /// The search also yields all other candidates at the distance of the last one.
    All,
}

/// The parameters of a nearest search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NearestQuery {
    /// The number of neighbours.
    pub count: usize,
    /// Whether neighbours at the distance of the last one count.
    pub ties: Ties,
    /// The greatest distance of a neighbour; infinite: any.
    pub distance_max: f64,
}

impl NearestQuery {
    /// The nearest `count`, at any distance, without ties beyond the count.
    pub const fn new(count: usize) -> Self {
        Self { count, ties: Ties::Cut, distance_max: f64::INFINITY }
    }
}

/// A candidate of a nearest search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate<T> {
    /// A number that the distance of the candidate does not fall below.
    pub lower_bound: f64,
    /// The candidate.
    pub item: T,
}

/// A result of a nearest search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour<T> {
    /// The exact distance.
    pub distance: f64,
    /// The candidate.
    pub item: T,
}

/// The nearest candidates in the order of their distances, and of their arrival where distances are equal.
///
/// `candidates` yields them in the order of their lower bounds, as a best-first search over bounding boxes does, and
/// may be endless. `distance` measures a candidate; it may yield `None` for one that is farther than the limit that it
/// receives. The search asks for a candidate, and measures it, only if it may be nearer than the results so far, and it
/// yields each result as soon as no later candidate can be nearer. After an error it ends.
pub struct Nearest<I, T, F> {
    candidates: I,
    distance: F,
    query: NearestQuery,
    /// Measured candidates that were not yielded.
    pending: BinaryHeap<Measured<T>>,
    /// The least distances that were measured, as many as the count.
    least: BinaryHeap<Distance>,
    /// The lower bound of all candidates to come; infinite: there are none.
    bound: f64,
    arrived: u64,
    yielded: usize,
    last: f64,
}

/// A distance that can be ordered.
#[derive(Clone, Copy, PartialEq)]
struct Distance(f64);

impl Eq for Distance {}

impl PartialOrd for Distance {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Distance {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// A candidate with its distance and its place in the order of arrival. The heap's greatest is the nearest.
struct Measured<T> {
    distance: Distance,
    arrival: u64,
    item: T,
}

impl<T> PartialEq for Measured<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Measured<T> {}

impl<T> PartialOrd for Measured<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Measured<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.distance, other.arrival).cmp(&(self.distance, self.arrival))
    }
}

impl<I, T, F, E> Nearest<I, T, F>
where
    I: Iterator<Item = Result<Candidate<T>, E>>,
    F: FnMut(&T, f64) -> Result<Option<f64>, E>,
{
    /// The search among `candidates`. `distance`: measures a candidate, up to a limit.
    pub fn new(candidates: I, query: NearestQuery, distance: F) -> Self {
        Self {
            candidates,
            distance,
            query,
            pending: BinaryHeap::new(),
            least: BinaryHeap::new(),
            bound: 0.0,
            arrived: 0,
            yielded: 0,
            last: 0.0,
        }
    }

    /// The greatest distance that a result can have.
    fn limit(&self) -> f64 {
        let full = self.least.len() == self.query.count;
        let greatest = self.least.peek().filter(|_| full).map_or(f64::INFINITY, |greatest| greatest.0);
        greatest.min(self.query.distance_max)
    }

    /// Takes the next candidate and measures it.
    fn advance(&mut self) -> Result<(), E> {
        let candidate = match self.candidates.next().transpose()? {
            Some(candidate) if candidate.lower_bound <= self.limit() => candidate,
            _ => {
                self.bound = f64::INFINITY;
                return Ok(());
            }
        };
        self.bound = self.bound.max(candidate.lower_bound);
        let limit = self.limit();
        if let Some(distance) = (self.distance)(&candidate.item, limit)?.filter(|distance| *distance <= limit)
        {
            self.least.push(Distance(distance));
            if self.least.len() > self.query.count {
                self.least.pop();
            }
            let (distance, arrival) = (Distance(distance), self.arrived);
            self.pending.push(Measured { distance, arrival, item: candidate.item });
        }
        self.arrived += 1;
        Ok(())
    }

    /// Whether a result at this distance counts, after those that were yielded.
    fn counts(&self, distance: f64) -> bool {
        self.yielded < self.query.count
            || self.query.ties == Ties::All && self.query.count > 0 && distance.total_cmp(&self.last).is_le()
    }
}

impl<I, T, F, E> Iterator for Nearest<I, T, F>
where
    I: Iterator<Item = Result<Candidate<T>, E>>,
    F: FnMut(&T, f64) -> Result<Option<f64>, E>,
{
    type Item = Result<Neighbour<T>, E>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.query.count == 0 || self.yielded >= self.query.count && self.query.ties == Ties::Cut {
            return None;
        }
        // A candidate with an equal lower bound may have the same distance, but arrived later.
        while self.bound < self.pending.peek().map_or(f64::INFINITY, |nearest| nearest.distance.0) {
            if let Err(error) = self.advance() {
                (self.bound, self.query.count) = (f64::INFINITY, 0);
                self.pending.clear();
                return Some(Err(error));
            }
        }
        let nearest = self.pending.pop()?;
        if !self.counts(nearest.distance.0) {
            self.pending.clear();
            self.bound = f64::INFINITY;
            return None;
        }
        self.yielded += 1;
        self.last = nearest.distance.0;
        Some(Ok(Neighbour { distance: nearest.distance.0, item: nearest.item }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Candidates of these distances, with lower bounds some way below them, in the order of the bounds.
    fn candidates(distances: &[(u8, u8)]) -> Vec<Candidate<usize>> {
        let bound = |(distance, slack): (u8, u8)| f64::from(distance.saturating_sub(slack));
        let mut all: Vec<_> = distances
            .iter()
            .enumerate()
            .map(|(item, pair)| Candidate { lower_bound: bound(*pair), item })
            .collect();
        all.sort_by(|one, other| one.lower_bound.total_cmp(&other.lower_bound));
        all
    }

    type Found = Vec<(u8, usize)>;

    fn search(distances: &[(u8, u8)], query: NearestQuery) -> (Found, usize) {
        let all = candidates(distances);
        let mut measured = 0;
        let measure = |item: &usize, limit: f64| {
            measured += 1;
            let distance = f64::from(distances[*item].0);
            Ok::<_, ()>((distance <= limit).then_some(distance))
        };
        let found = Nearest::new(all.into_iter().map(Ok), query, measure);
        let found = found.map(|one| one.map(|one| (one.distance as u8, one.item)).unwrap()).collect();
        (found, measured)
    }

    fn by_brute_force(distances: &[(u8, u8)], query: NearestQuery) -> Vec<u8> {
        let mut all: Vec<u8> = distances.iter().map(|pair| pair.0).collect();
        all.retain(|distance| f64::from(*distance) <= query.distance_max);
        all.sort_unstable();
        let cut = query.count.min(all.len());
        let ties = match query.ties {
            Ties::Cut => cut,
            Ties::All => all.iter().filter(|one| cut > 0 && **one <= all[cut - 1]).count(),
        };
        all.truncate(ties);
        all
    }

    proptest! {
        #[test]
        fn results_are_those_of_a_sort(
            distances in proptest::collection::vec((0u8..40, 0u8..20), 0..60),
            count in 0usize..12,
            all_ties in any::<bool>(),
            distance_max in prop_oneof![Just(f64::INFINITY), (0u8..40).prop_map(f64::from)],
        ) {
            let ties = if all_ties { Ties::All } else { Ties::Cut };
            let query = NearestQuery { count, ties, distance_max };
            let (found, _) = search(&distances, query);
            let found_distances: Vec<u8> = found.iter().map(|one| one.0).collect();
            prop_assert_eq!(found_distances, by_brute_force(&distances, query));
            prop_assert!(found.iter().all(|(distance, item)| distances[*item].0 == *distance));
            let mut items: Vec<usize> = found.iter().map(|one| one.1).collect();
            items.sort_unstable();
            items.dedup();
            prop_assert_eq!(items.len(), found.len());
        }
    }

    #[test]
    fn candidates_beyond_the_results_are_not_measured() {
        let distances: Vec<(u8, u8)> = (0..100).map(|distance| (distance, 3)).collect();
        let (found, measured) = search(&distances, NearestQuery::new(5));
        assert_eq!(found.iter().map(|one| one.1).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert!(measured <= 9, "{measured}");
    }

    #[test]
    fn an_error_ends_the_search() {
        let all = candidates(&[(1, 0), (2, 0), (3, 0)]);
        let measure = |item: &usize, _| if *item == 1 { Err("unreadable") } else { Ok(Some(0.5)) };
        let found: Vec<_> = Nearest::new(all.into_iter().map(Ok), NearestQuery::new(3), measure).collect();
        assert_eq!(found.last(), Some(&Err("unreadable")));
        assert_eq!(found.iter().filter(|one| one.is_err()).count(), 1);
    }
}
