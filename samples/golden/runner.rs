// Test a port against the golden suite, without crates: rustc -O runner.rs && ./runner FOLDER [--mistake]
// The port here is the naive one: angles in f32. It passes near 0 and fails where f32 does.
use std::{env, fs, process};

// ---- the port under test: replace this function by your own ----
fn table(base: f64, dim: usize, positions: &[f64], mistake: bool) -> (Vec<f32>, Vec<f32>) {
    let (mut cos, mut sin) = (Vec::new(), Vec::new());
    for place in positions {
        for k in 0..dim / 2 {
            let frequency = 1.0f32 / (base as f32).powf(2.0 * k as f32 / dim as f32);
            let angle = (*place as f32 + if mistake { 1.0 } else { 0.0 }) * frequency;
            cos.push(angle.cos());
            sin.push(angle.sin());
        }
    }
    (cos, sin)
}
// -----------------------------------------------------------------

/// The text from a key's value on; JSON of the suite has every key once where it is looked for.
fn after<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let quoted = format!("\"{}\":", key);
    text.find(&quoted).map(|at| text[at + quoted.len()..].trim_start())
}

fn number(text: &str, key: &str) -> Option<f64> {
    let rest = after(text, key)?;
    rest[..rest.find(|c: char| ",}\n".contains(c))?].trim().parse().ok()
}

fn numbers(text: &str, key: &str) -> Option<Vec<f64>> {
    let rest = after(text, key)?.strip_prefix('[')?;
    rest[..rest.find(']')?].split(',').map(|word| word.trim().parse().ok()).collect()
}

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    let mistake = words.iter().any(|word| word == "--mistake");
    let folder = words.iter().find(|word| !word.starts_with('-')).cloned().unwrap_or("golden".into());
    let index = fs::read_to_string(format!("{}/index.json", folder)).expect("FOLDER has no index.json");
    let (mut passed, mut failed) = (0, 0);
    for entry in index.split("\n  {\n").skip(1) {
        let name = after(entry, "name").and_then(|rest| rest.split('"').nth(1)).unwrap_or("");
        let plain = entry.contains("\"scaling\": \"none\"") && entry.contains("\"layout\": \"compact\"");
        if !name.starts_with("table-") || !plain || entry.contains("partial_rotary_factor") {
            continue;
        }
        let (base, dim) = (number(entry, "base").unwrap(), number(entry, "dim").unwrap() as usize);
        let positions = numbers(entry, "positions").unwrap();
        let tolerance = number(entry, "float32").unwrap();
        let file = fs::read_to_string(format!("{}/{}.json", folder, name)).expect("a case is missing");
        let (cos, sin) = table(base, dim, &positions, mistake);
        let mut worst = 0.0f64;
        for (key, found) in [("cos", cos), ("sin", sin)] {
            let golden = numbers(after(&file, key).unwrap(), "decimal").unwrap();
            for (one, other) in found.iter().zip(&golden) {
                worst = worst.max((*one as f64 - other).abs());
            }
        }
        let verdict = if worst <= tolerance { "passed" } else { "FAILED" };
        println!("{}  {}  off by {:.1e}", verdict, name, worst);
        if worst <= tolerance { passed += 1 } else { failed += 1 }
    }
    println!("{} passed, {} failed", passed, failed);
    process::exit(if failed > 0 { 1 } else { 0 });
}
