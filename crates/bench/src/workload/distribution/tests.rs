//! Tests of the distributions against theory: the share of the hottest keys, and all ranks of small distributions.

use super::*;

/// `1^-theta + … + n^-theta`: exact up to 10,000, then Euler and Maclaurin (error far below 1e-9).
fn harmonic(n: u64, theta: f64) -> f64 {
    let head = n.min(10_000);
    let sum: f64 = (1..=head).map(|rank| (rank as f64).powf(-theta)).sum();
    if n == head {
        return sum;
    }
    let integral = |x: f64| {
        if (theta - 1.0).abs() < 1e-9 { x.ln() } else { x.powf(1.0 - theta) / (1.0 - theta) }
    };
    let (low, high) = (head as f64, n as f64);
    sum + integral(high) - integral(low) + 0.5 * (high.powf(-theta) - low.powf(-theta))
}

/// The share of each of the `top` hottest ranks in `draws` draws.
fn shares(ranks: u64, theta: f64, top: usize, draws: u32) -> Vec<f64> {
    let popularity = Popularity::new(ranks, theta).unwrap();
    let mut generator = Generator::for_client(1, 0);
    let mut counts = vec![0u32; top];
    for _ in 0..draws {
        let rank = popularity.draw(&mut generator);
        assert!(rank < ranks);
        if let Some(count) = counts.get_mut(rank as usize) {
            *count += 1;
        }
    }
    counts.into_iter().map(|count| f64::from(count) / f64::from(draws)).collect()
}

/// Five standard deviations of a share `p` in `draws` draws.
fn tolerance(p: f64, draws: u32) -> f64 {
    5.0 * (p * (1.0 - p) / f64::from(draws)).sqrt()
}

#[test]
fn the_hottest_key_has_its_theoretical_share() {
    let draws = 1_000_000;
    for (ranks, percent) in [(1_000_000_000, 4.24), (10_000_000, 5.54)] {
        let share = shares(ranks, 0.99, 1, draws)[0];
        let theory = 1.0 / harmonic(ranks, 0.99);
        assert!((theory * 100.0 - percent).abs() < 0.005, "{ranks}: theory {theory}");
        assert!((share - theory).abs() < tolerance(theory, draws), "{ranks}: {share} {theory}");
    }
}

#[test]
fn the_ten_hottest_ranks_follow_every_theta() {
    let draws = 400_000;
    for theta in [0.2, 0.5, 0.9, 0.99, 1.0, 1.000_001, 1.2, 2.0, 5.0] {
        for ranks in [10, 1_000_000] {
            let total = harmonic(ranks, theta);
            for (rank, share) in (1..).zip(shares(ranks, theta, 10, draws)) {
                let theory = f64::from(rank).powf(-theta) / total;
                let error = (share - theory).abs();
                assert!(error <= tolerance(theory, draws), "{theta} {ranks} {rank}: {share} {theory}");
            }
        }
    }
}

#[test]
fn the_extreme_skews_stay_in_range() {
    assert!(shares(1 << 36, THETA_MAX, 1, 10_000)[0] > 0.99);
    assert!(shares(2, 0.001, 2, 10_000)[1] > 0.4);
    assert!((shares(1, 0.99, 1, 100)[0] - 1.0).abs() < f64::EPSILON);
}

#[test]
fn theta_zero_is_uniform() {
    for share in shares(4, 0.0, 4, 100_000) {
        assert!((share - 0.25).abs() < 0.01, "{share}");
    }
}

#[test]
fn bad_skews_are_refused_by_name() {
    for theta in [-0.1, f64::NAN, f64::INFINITY, 21.0] {
        let error = Distribution::new("zipf", theta).unwrap_err().to_string();
        assert!(error.starts_with("--theta: ") && error.contains("0 (uniform) to 20"), "{error}");
    }
    let error = Distribution::new("gauss", 0.5).unwrap_err().to_string();
    assert!(error.contains("gauss") && error.contains("uniform, zipf, latest"), "{error}");
    assert!(Popularity::new(0, 0.99).is_err());
}

#[test]
fn popularity_over_other_ranks_keeps_the_hottest_share() {
    let draws = 300_000u32;
    let chooser = KeyChooser::new(Distribution::Zipf { theta: 0.99 }, 1_000_000_000, 1000).unwrap();
    let mut counts = vec![0u32; 1000];
    let mut generator = Generator::for_client(3, 0);
    for _ in 0..draws {
        counts[chooser.choose(&mut generator) as usize] += 1;
    }
    let hottest = f64::from(counts.iter().copied().max().unwrap()) / f64::from(draws);
    // 4.24 % of its own and about a thousandth of the rest, which is hashed onto the same 1000 keys.
    assert!((0.042..0.050).contains(&hottest), "{hottest}");
    assert!(counts.iter().all(|count| *count > 0));
}

#[test]
fn the_share_of_the_hottest_key_matches_the_sum() {
    for (theta, ranks) in
        [(0.0, 5000_u64), (0.5, 900), (0.9, 40_000), (0.99, 100_000), (1.0, 30_000), (1.5, 70_000)]
    {
        let sum: f64 = (1..=ranks).map(|k| (k as f64).powf(-theta)).sum();
        let share = Distribution::Zipf { theta }.share_of_hottest(ranks);
        assert!((share * sum - 1.0).abs() < 1e-9, "{theta} {ranks}: {share} for {}", 1.0 / sum);
    }
    let paper = Distribution::Zipf { theta: 0.99 }.share_of_hottest(1_000_000_000);
    assert!((paper - 0.0424).abs() < 0.00005, "{paper}");
}

#[test]
fn names_parse() {
    for name in Distribution::NAMES {
        assert_eq!(name.parse::<Distribution>().unwrap().name(), name);
    }
    assert_eq!(Distribution::Zipf { theta: 0.9 }.to_string(), "zipf 0.9");
}
