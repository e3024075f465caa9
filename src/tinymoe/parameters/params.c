/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameter layout and its initial values, from one table. No state.
 */
#include "tinymoe/parameters/params.h"

#include <math.h>

#include "tinymoe/system/rng.h"

/* The spread of the initial values: normal with this standard deviation, or all ones. */
enum spread {
	SPREAD_ONES,
	SPREAD_SMALL,	 /* 0.02: logits start near zero, so the first loss is ln 256 */
	SPREAD_WIDE,	 /* 0.02: logits start near zero, so the first loss is ln 256 */
	SPREAD_INPUTS,	 /* 0.1: about what training soon makes of embeddings anyway */
	SPREAD_RESIDUAL, /* the same, less 1/sqrt(2*layers): it is added to the residual stream */
};

static const struct param_info {
	const char *name;
	bool in_layers;
	enum spread spread;
} params[PARAM_COUNT] = {
	[PARAM_EMBEDDING] = { "embedding", false, SPREAD_WIDE },
	[PARAM_POSITION] = { "position", false, SPREAD_WIDE },
	[PARAM_ATTENTION_NORM] = { "attention norm", true, SPREAD_ONES },
	[PARAM_QUERY] = { "query", true, SPREAD_INPUTS },
	[PARAM_KEY] = { "key", true, SPREAD_INPUTS },
	[PARAM_VALUE] = { "value", true, SPREAD_INPUTS },
	[PARAM_OUTPUT] = { "output", true, SPREAD_RESIDUAL },
	[PARAM_MOE_NORM] = { "moe norm", true, SPREAD_ONES },
	[PARAM_ROUTER] = { "router", true, SPREAD_SMALL },
	[PARAM_GATE] = { "expert gate", true, SPREAD_INPUTS },
	[PARAM_UP] = { "expert up", true, SPREAD_INPUTS },
	[PARAM_DOWN] = { "expert down", true, SPREAD_RESIDUAL },
	[PARAM_FINAL_NORM] = { "final norm", false, SPREAD_ONES },
	[PARAM_HEAD] = { "head", false, SPREAD_SMALL },
};

static size_t param_size(enum param param, const struct config *c)
{
	size_t width = (size_t)c->width, experts = (size_t)c->experts;

	switch (param) {
	case PARAM_EMBEDDING:
	case PARAM_HEAD:
		return VOCABULARY * width;
	case PARAM_POSITION:
		return (size_t)c->context * width;
	case PARAM_QUERY:
	case PARAM_KEY:
	case PARAM_VALUE:
	case PARAM_OUTPUT:
		return width * width;
	case PARAM_ROUTER:
		return experts * width;
	case PARAM_GATE:
	case PARAM_UP:
	case PARAM_DOWN:
		return experts * (size_t)c->expert_width * width;
	default:
		return width;
	}
}

void param_layout_init(struct param_layout *layout, const struct config *config)
{
	size_t at = 0, first_in_layers = 0;

	*layout = (struct param_layout){ .layers = config->layers };
	for (int i = 0; i < PARAM_COUNT; i++) {
		bool starts = params[i].in_layers && !params[i - 1].in_layers;
		bool ends = params[i].in_layers && !params[i + 1].in_layers;

		if (starts)
			first_in_layers = at;
		layout->offset[i] = at;
		layout->size[i] = param_size((enum param)i, config);
		at += layout->size[i];
		if (ends) {
			layout->layer_stride = at - first_in_layers;
			at += layout->layer_stride * (size_t)(config->layers - 1);
		}
	}
	layout->total = at;
}

const char *param_name(enum param param)
{
	return params[param].name;
}

bool param_in_layers(enum param param)
{
	return params[param].in_layers;
}

bool param_decays(enum param param)
{
	return params[param].spread != SPREAD_ONES;
}

size_t param_at(const struct param_layout *layout, enum param param, int32_t layer)
{
	size_t at = layout->offset[param];

	return params[param].in_layers ? at + layout->layer_stride * (size_t)layer : at;
}

static double deviation(enum param param, const struct config *config)
{
	double inputs = param == PARAM_DOWN ? config->expert_width : config->width;

	switch (params[param].spread) {
	case SPREAD_SMALL:
		return 0.02;
	case SPREAD_WIDE:
		return 0.1;
	case SPREAD_RESIDUAL:
		return 1 / sqrt(inputs * 2 * config->layers);
	default:
		return 1 / sqrt(inputs);
	}
}

void params_randomize(const struct param_layout *layout, const struct config *config,
		      struct rng *rng, real *values)
{
	for (int i = 0; i < PARAM_COUNT; i++) {
		int32_t copies = params[i].in_layers ? config->layers : 1;
		double scale = deviation((enum param)i, config);

		for (int32_t layer = 0; layer < copies; layer++) {
			real *to = values + param_at(layout, (enum param)i, layer);

			for (size_t j = 0; j < layout->size[i]; j++)
				to[j] = params[i].spread == SPREAD_ONES
						? 1
						: (real)(scale * rng_normal(rng));
		}
	}
}
