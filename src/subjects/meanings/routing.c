/* SPDX-License-Identifier: Apache-2.0
 *
 * What the numbers of routing mean.
 */
#include "subjects/meanings/meanings.h"

#define COUNTED "derived from the assignments counted in each routing record"
#define ROUTER_WEIGHTS "measured from the router weights that the program gives with its routing"
#define ROUTER_SCORES "measured from the full score rows that the program gives with its routing"
#define PER_TOKEN "derived from the experts of every token (level full)"

static const struct metric routing[] = {
	{ "load", "assignments", "n_e: the token slots sent to expert e.",
	  "counted in each routing record",
	  "Dropped, unused and padding slots are not assignments; they are counted apart." },
	{ "utilization_pct", "%", "100 * n_e / N: the expert's share of all assignments.", COUNTED,
	  "A share of tokens, not of time." },
	{ "imbalance", "ratio",
	  "max(n) / m. 1 is perfect; it bounds the speed of expert parallelism.", COUNTED,
	  "Chance alone gives more than 1: compare with imbalance_floor." },
	{ "balancedness", "0..1", "m / max(n), the inverse of imbalance.", COUNTED },
	{ "max_violation", "ratio",
	  "(max(n) - m) / m; of one step as max_violation_step, over the window as "
	  "max_violation_window.",
	  COUNTED, "The two are never mixed: loads that differ step by step cancel in a window.",
	  .keys = "max_violation_window max_violation_step_mean max_violation_step_max" },
	{ "cv", "ratio", "population standard deviation of n, divided by m.", COUNTED,
	  "At small batches mostly chance: compare with cv_floor, judge by cv_excess." },
	{ "gini", "0..1",
	  "sum over i of (2i - E - 1) * n_(i), divided by E * N; loads ascending, i from 1.",
	  COUNTED },
	{ "entropy_norm", "0..1", "-sum(p ln p) / ln E over all E experts; 0 ln 0 is 0.", COUNTED,
	  "1 is uniform; near 0 the router has collapsed." },
	{ "dead", "experts", "experts with n_e = 0 in the whole window.", COUNTED,
	  "Depends on the window: an expert can be silent for a step without being dead." },
	{ "starved", "experts", "experts with n_e < 0.5 m.", COUNTED },
	{ "overloaded", "experts", "experts with n_e > 1.5 m.", COUNTED },
	{ "cv_floor", "ratio",
	  "sqrt((E - k) / (T * k)): the cv that perfectly uniform routing shows by chance.",
	  "derived from E, k and T", "Assumes independent tokens." },
	{ "imbalance_floor", "ratio",
	  "1 + sqrt(2 ln E * (1 - k/E) / m): the imbalance that uniform routing shows by chance.",
	  "derived from E, k and m", "Assumes independent tokens." },
	{ "cv_excess", "ratio",
	  "sqrt(max(0, cv^2 - cv_floor^2)): the part of cv that can be fixed.", COUNTED,
	  "Verdicts use this, never raw cv." },
	{ "k", "slots",
	  "k_t: the valid slots of token t (index at least 0 and less than E); mean, min, max and "
	  "the number of tokens with 0, 1, 2... of them.",
	  "counted in each routing record", .keys = "k_mean k_min k_max k_hist k_avg" },
	{ "slots", "slots",
	  "tokens * k = assignments + unused + dropped + invalid; padding rows are not tokens.",
	  "counted in each routing record",
	  "unused: dynamic k chose fewer; dropped: the expert was full; invalid: not an expert.",
	  .keys = "unused dropped invalid padding assignments" },
	{ "drop_rate_measured", "0..1", "dropped / (assignments + dropped).",
	  "counted in each routing record", "What the program did drop." },
	{ "imbalance_tax", "ns/step",
	  "per step, layer and phase: time of expert work of the busiest worker less the mean over "
	  "all workers; a worker is a device, or a thread where no kernels were recorded. Over up "
	  "to 64 steps.",
	  "measured: kernels (else ranges) that name a layer and an expert, grouped GEMMs of a layer",
	  "n/a with one worker. tax_tokens_per_s: tokens/s won without it. Chance makes a part.",
	  .keys = "tax_ns tax_pct tax_tokens_per_s expert_ns" },
	{ "what_if_ns", "ns/step",
	  "est.: the tax if one worker's experts were spread in order over D devices: (busiest share "
	  "* D - 1) * expert time / D, D the largest of 8, 4, 2 that divides the experts.",
	  "estimated from loads and expert time", "Assumes that time grows with load." },
	{ "tile_ns", "ns/step", "est.: tile_waste * time of expert work on the device.",
	  "estimated from loads and expert time",
	  "Assumes that time follows rows, and the height." },
	{ "router_confidence", "0..1",
	  "1 - H(w_t) / ln E over the token's normalised router weights, mean over tokens.",
	  ROUTER_WEIGHTS,
	  "The weights of the k chosen alone: when they are equal it is 1 - ln k / ln E, not 0; see "
	  "router_confidence_k. n/a when the program gives no weights; below level full of every "
	  "eighth token.",
	  .keys = "router_conf" },
	{ "router_confidence_k", "0..1",
	  "1 - H(w_t) / ln k over the token's normalised router weights, mean over tokens: 0 when "
	  "the k chosen have equal weights, 1 when one has all.",
	  ROUTER_WEIGHTS,
	  "n/a for k = 1, where one weight says nothing, and when the program gives no weights; "
	  "below level full of every eighth token." },
	{ "router_entropy", "nats", "entropy of the token's full score row, mean over tokens.",
	  ROUTER_SCORES,
	  "n/a when the program gives no scores; below level full of every eighth token." },
	{ "top1_prob", "0..1", "the largest score of the row, mean over tokens.", ROUTER_SCORES,
	  "n/a when the program gives no scores; below level full of every eighth token." },
	{ "topk_mass", "0..1", "the sum of the k largest scores, mean over tokens.", ROUTER_SCORES,
	  "n/a when the program gives no scores; below level full of every eighth token." },
	{ "margin", "score", "s_(k) - s_(k+1): how clearly the last chosen expert won.",
	  ROUTER_SCORES,
	  "n/a when the program gives no scores; below level full of every eighth token." },
	{ "drop_rate", "0..1",
	  "sum max(0, n_e - C) / N with C = ceil(cf * T * k / E): assignments over a capacity.",
	  "estimated from the loads for the capacity factor cf asked for",
	  "An estimate (est.): what would drop; what was dropped is counted as dropped.",
	  .keys = "capacity_factor capacity" },
	{ "pad_waste", "0..1",
	  "sum max(0, C - n_e) / (E * C): empty rows when every expert is padded to C.",
	  "estimated from the loads for the capacity factor cf asked for" },
	{ "tile_waste", "0..1",
	  "1 - N / sum(ceil(n_e / B) * B): rows a grouped GEMM computes in vain at tile height B.",
	  "estimated from the loads for the tile height asked for", .keys = "tile_rows" },
	{ "coactivation", "0..1",
	  "tokens sent to both i and j, divided by the tokens sent to i; by chance, from the loads "
	  "alone, (k - 1) * n_j / (N - n_i).",
	  PER_TOKEN, .keys = "coactivation_pairs" },
	{ "affinity", "0..1",
	  "of the slots in layer l+1 of the tokens at i in layer l, the share at j; by chance j's "
	  "share of all these slots.",
	  PER_TOKEN, .keys = "affinity_pairs affinity_layer affinity_tokens" },
	{ "lift", "ratio",
	  "observed / what the loads alone would give: 1 is chance, 2 twice as many tokens.",
	  PER_TOKEN, "With few tokens mostly chance: compare tokens.",
	  .keys = "coactivation_lift affinity_lift" },
	{ "affinity_bits", "bits",
	  "mutual information of an expert of a token in layer l and one of the same token in layer "
	  "l+1: sum p_ij log2(p_ij / (p_i p_j)) over all pairs; affinity_bits_most is what knowing "
	  "all would give, H(p_j) - mean log2 k_t.",
	  PER_TOKEN,
	  "Chance alone gives more than 0, affinity_bits_floor: (E/k - 1) * (E'/k' - 1) / (2 T ln 2) "
	  "with the experts that are used, at most affinity_bits_most.",
	  .keys = "affinity_bits_floor affinity_bits_most" },
	{ "repeat_rate", "0..1",
	  "share of consecutive tokens whose expert sets intersect; uniform routing gives "
	  "1 - C(E-k,k) / C(E,k).",
	  PER_TOKEN, .keys = "repeat_rate_uniform" },
	{ "hot_persistence", "0..1",
	  "Jaccard index of the h most loaded experts at step s and at step s+d.", COUNTED,
	  .keys = "hot_experts" },
	{ "unique_experts", "experts",
	  "experts with n_e > 0; uniform routing expects E * (1 - (1 - k/E)^T).", COUNTED,
	  .keys = "active_experts unique_experts_step_mean unique_experts_step_uniform" },
	{ "expert_bytes_touched", "bytes", "the weight bytes of the experts with n_e > 0.",
	  "derived from the loads and the layer sizes the program gives",
	  "n/a when the program gives no layer sizes.",
	  .keys = "expert_bytes_touched_step_mean expert_bytes_touched_step_uniform" },
	{ "flops_router", "FLOP", "2*T*H*E + 5*T*E.",
	  "derived from the tokens and the layer sizes the program gives",
	  "n/a when the program gives no layer sizes." },
	{ "flops_expert", "FLOP",
	  "sum over tokens of k_t * (4*H*I with two matrices, 6*H*I with three).",
	  "derived from the tokens and the layer sizes the program gives",
	  "The number of matrices is read from the program, never assumed; n/a without it." },
	{ "flops_total", "FLOP", "flops_router + flops_expert.",
	  "derived from the tokens and the layer sizes the program gives",
	  "n/a when the program gives no layer sizes." },
	{ "latency_ms", "ms",
	  "time inside the ranges and operations named 'router' of a layer, phase and step.",
	  "the host's clock", "n/a when the program names no such range." },
	{ "self_check", "ok or what failed",
	  "sum n_e = sum k_t for every layer and step, and every slot is accounted for.",
	  "derived from each routing record", "A mismatch is at the top of every report." },
	{ "load_balance_score", "ratio", "the same as cv.", COUNTED,
	  "For compatibility only, under 'legacy'." },
	{ "routing_efficiency", "0..100", "clamp(100 - 10 * cv, 0, 100).", COUNTED,
	  "For compatibility only, under 'legacy'. Not an efficiency: with 6 of 8 experts dead it is "
	  "still 82.7. Use balancedness and entropy_norm." },
};

const struct metric_group routing_metrics = {
	"routing", METRICS(routing),
	.symbols =
		"T valid tokens, E experts, k slots per token, n_e assignments to expert e, N = sum n_e, m = N/E, p_e = n_e/N, C capacity of an expert, H hidden width, I inner width of an expert"
};
