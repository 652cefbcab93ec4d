// Single positions in fp32 on a CPU: all blocks of a transformer (RMSNorm, grouped-query attention over interleaved rotary
// pairs, SwiGLU), and draws from logits. Weights are fp16 or fp32 and are read once for up to four rows.
//
// Every row is summed in the same order whatever the number of rows, so its result does not depend on its batch.
// Compiled by engine/models/native/build.py. The operators are registered through PyTorch's stable C interface
// (torch/csrc/inductor/aoti_torch/c/shim.h), which needs neither its headers nor a C++ compiler.

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__F16C__) || defined(__FMA__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define LANES 8
#define REPETITION_TEMPERATURE 1.0f  // as in engine/models/sampling.py
#define REPETITION_TOP_P 0.9f
#define INLINE static inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));

struct layer {
    const void *wqkv, *wo, *w13, *w2;  // [outputs, inputs]
    const float *attention_norm, *ffn_norm, *q_norm, *k_norm, *qkv_bias, *o_bias;  // the last four may be null
};

struct stack {
    int64_t layers, dim, heads, kv_heads, width, hidden, half;  // half: whether the matrices are fp16
    double eps;
    const float *rope;  // [positions, width / 2, 2]: cos, sin
    const struct layer *layer;
};

// Operators cannot raise errors through PyTorch's C interface.
static void check_memory(int has) {
    if (has) return;
    fputs("Reprise: there is no memory for a step of the model.\n", stderr);
    abort();
}

static float *allocate(int64_t count) {
    float *room = malloc(sizeof(float) * count);
    check_memory(room != NULL);
    return room;
}

// ---- vectors

INLINE vec load(const float *p) {
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

INLINE void store(float *p, vec v) { memcpy(p, &v, sizeof v); }

// a · b + c, rounded once where the processor can. Never left to the compiler, which may choose otherwise for other rows.
INLINE vec fused(vec a, vec b, vec c) {
#if defined(__FMA__)
    return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__ARM_FEATURE_FMA)
    for (int i = 0; i < LANES; i++) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return c;
#else
    return a * b + c;
#endif
}

INLINE float total(vec v) { return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7])); }

#if defined(__F16C__)
#define HAS_HALF 1
INLINE vec load_half(const uint16_t *p) { return (vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
#elif defined(__aarch64__)
#define HAS_HALF 1
INLINE vec load_half(const uint16_t *p) {
    const float16x8_t halves = vld1q_f16((const float16_t *)p);
    const float32x4_t parts[2] = {vcvt_f32_f16(vget_low_f16(halves)), vcvt_f32_f16(vget_high_f16(halves))};
    vec v;
    memcpy(&v, parts, sizeof v);
    return v;
}
#else
#define HAS_HALF 0
INLINE vec load_half(const uint16_t *p) { (void)p; return (vec){0}; }
#endif

int reprise_has_half(void) { return HAS_HALF; }

// exp by Cephes' polynomial, for x ≤ 88; below -87 it is about 1e-38.
INLINE vec exponential(vec x) {
    const vec least = (vec){} - 87.0f;
    const ivec low = x < least;
    x = (vec)(((ivec)x & ~low) | ((ivec)least & low));
    const vec scaled = x * 1.44269504f + 127.5f;  // biased, so that the cast rounds down
    ivec power = __builtin_convertvector(scaled, ivec);
    const vec n = __builtin_convertvector(power - 127, vec);
    x = x - n * 0.693359375f + n * 2.12194440e-4f;
    vec y = (vec){} + 1.9875691500e-4f;
    y = y * x + 1.3981999507e-3f;
    y = y * x + 8.3334519073e-3f;
    y = y * x + 4.1665795894e-2f;
    y = y * x + 1.6666665459e-1f;
    y = y * x + 5.0000001201e-1f;
    y = y * x * x + x + 1.0f;
    return y * (vec)(power << 23);
}

// ---- matrices

INLINE vec weights(const void *w, int64_t at, int half) {
    return half ? load_half((const uint16_t *)w + at) : load((const float *)w + at);
}

// The first `count` numbers, then zeros.
INLINE vec some(const float *p, int64_t count) {
    vec v = {};
    memcpy(&v, p, count * sizeof *p);
    return v;
}

INLINE vec some_weights(const void *w, int64_t at, int half, int64_t count) {
    if (!half) return some((const float *)w + at, count);
    uint16_t halves[LANES] = {0};
    memcpy(halves, (const uint16_t *)w + at, count * sizeof *halves);
    return load_half(halves);
}

// y[r, e..e+count] = x[r] · w[e..e+count] for R rows. Every sum has the same operations whatever R is.
INLINE void outputs(const void *w, int half, int64_t e, const int count, int64_t inputs, const float *x, const int R,
                    const float *bias, float *y, int64_t stride) {
    vec sums[4][4] = {};
    const int64_t whole = inputs / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES) {
        vec xs[4];
        for (int r = 0; r < R; r++) xs[r] = load(x + r * inputs + i);
        for (int o = 0; o < count; o++) {
            const vec ws = weights(w, (e + o) * inputs + i, half);
            for (int r = 0; r < R; r++) sums[o][r] = fused(ws, xs[r], sums[o][r]);
        }
    }
    if (whole < inputs) {
        vec xs[4];
        for (int r = 0; r < R; r++) xs[r] = some(x + r * inputs + whole, inputs - whole);
        for (int o = 0; o < count; o++) {
            const vec ws = some_weights(w, (e + o) * inputs + whole, half, inputs - whole);
            for (int r = 0; r < R; r++) sums[o][r] = fused(ws, xs[r], sums[o][r]);
        }
    }
    for (int o = 0; o < count; o++)
        for (int r = 0; r < R; r++) {
            const float sum = total(sums[o][r]);
            y[r * stride + e + o] = bias ? sum + bias[e + o] : sum;
        }
}

INLINE void product_of(const void *w, int half, int64_t width, int64_t inputs, const float *x, const int R,
                       const float *bias, float *y) {
    const int count = R > 2 ? 2 : 4;  // so that all sums are in registers
    int64_t e = 0;
    for (; e + count <= width; e += count) outputs(w, half, e, count, inputs, x, R, bias, y, width);
    for (; e < width; e++) outputs(w, half, e, 1, inputs, x, R, bias, y, width);
}

// y [rows, width] = x [rows, inputs] · wᵀ [width, inputs] + bias.
static void product(const void *w, int half, int64_t width, int64_t inputs, const float *x, int64_t rows,
                    const float *bias, float *y) {
    for (; rows > 0; rows -= 4, x += 4 * inputs, y += 4 * width) {
#define CASE(R)                                                                \
    if (half) product_of(w, 1, width, inputs, x, R, bias, y);                  \
    else product_of(w, 0, width, inputs, x, R, bias, y);                       \
    break;
        switch (rows < 4 ? rows : 4) {
            case 1: CASE(1)
            case 2: CASE(2)
            case 3: CASE(3)
            default: CASE(4)
        }
#undef CASE
    }
}

// ---- blocks

INLINE float dot(const float *a, const float *b, int64_t n) {
    vec sum = {};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) sum = fused(load(a + i), load(b + i), sum);
    if (i < n) sum = fused(some(a + i, n - i), some(b + i, n - i), sum);
    return total(sum);
}

static void norm(const float *x, const float *scale, int64_t n, double eps, float *y) {
    const float factor = 1.0f / sqrtf(dot(x, x, n) / (float)n + (float)eps);
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * factor * scale[i];
}

// Rotate a head in place, normed first where there is a scale.
static void place(float *head, const float *scale, const float *rope, int64_t width, double eps) {
    if (scale) norm(head, scale, width, eps, head);
    for (int64_t i = 0; i < width; i += 2) {
        const float a = head[i], b = head[i + 1], c = rope[i], s = rope[i + 1];
        head[i] = a * c - b * s;
        head[i + 1] = a * s + b * c;
    }
}

// Attend with one query [width] to `count` positions. scores: room for them, and up to a whole vector.
static void attend(const float *query, const float *keys, const float *values, int64_t count, int64_t width,
                   float *scores, float *out) {
    const float scale = 1.0f / sqrtf((float)width);
    float most = -INFINITY;
    for (int64_t s = 0; s < count; s++) {
        scores[s] = dot(query, keys + s * width, width) * scale;
        if (scores[s] > most) most = scores[s];
    }
    const int64_t padded = (count + LANES - 1) / LANES * LANES;
    for (int64_t s = count; s < padded; s++) scores[s] = -INFINITY;
    for (int64_t s = 0; s < padded; s += LANES) store(scores + s, exponential(load(scores + s) - most));
    float mass = 0;
    memset(out, 0, width * sizeof *out);
    for (int64_t s = 0; s < count; s++) {
        mass += scores[s];
        const float *value = values + s * width;
        for (int64_t i = 0; i < width; i++) out[i] += scores[s] * value[i];
    }
    for (int64_t i = 0; i < width; i++) out[i] /= mass;
}

// y[i] = silu(x[i]) · x[n + i].
static void gate(const float *x, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i += LANES) {
        const int64_t left = n - i < LANES ? n - i : LANES;
        const vec first = some(x + i, left), second = some(x + n + i, left);
        const vec capped = (vec)(((ivec)-first & (-first < 88.0f)) | ((ivec)((vec){} + 88.0f) & ~(-first < 88.0f)));
        const vec gated = first / (1.0f + exponential(capped)) * second;
        memcpy(y + i, &gated, left * sizeof(float));
    }
}

// Run x [rows, dim] in place. cache: [layers, 2, slots, kv_heads, capacity, width]. A row sees the positions of its slot
// up to its own, those of earlier rows included.
static void run(const struct stack *s, int64_t rows, float *x, float *cache, int64_t slots, int64_t capacity,
                const int64_t *slot, const int64_t *position) {
    const int64_t dim = s->dim, width = s->width, heads = s->heads, kv = s->kv_heads, inner = heads * width;
    const int64_t all = (heads + 2 * kv) * width, group = heads / kv;
    const int64_t widest = all + inner > 3 * s->hidden ? all + inner : 3 * s->hidden;
    float *normed = allocate(rows * (2 * dim + widest) + capacity + LANES);
    float *added = normed + rows * dim, *first = added + rows * dim, *scores = first + rows * widest;
    for (int64_t l = 0; l < s->layers; l++) {
        const struct layer *w = s->layer + l;
        float *second = first + rows * all;
        for (int64_t r = 0; r < rows; r++) norm(x + r * dim, w->attention_norm, dim, s->eps, normed + r * dim);
        product(w->wqkv, s->half, all, dim, normed, rows, w->qkv_bias, first);
        for (int64_t r = 0; r < rows; r++) {
            float *q = first + r * all, *k = q + inner, *v = k + kv * width;
            const float *rope = s->rope + position[r] * width;
            for (int64_t h = 0; h < heads; h++) place(q + h * width, w->q_norm, rope, width, s->eps);
            for (int64_t h = 0; h < kv; h++) {
                float *keys = cache + (((l * 2) * slots + slot[r]) * kv + h) * capacity * width;
                float *values = cache + (((l * 2 + 1) * slots + slot[r]) * kv + h) * capacity * width;
                place(k + h * width, w->k_norm, rope, width, s->eps);
                memcpy(keys + position[r] * width, k + h * width, width * sizeof(float));
                memcpy(values + position[r] * width, v + h * width, width * sizeof(float));
                for (int64_t i = h * group; i < (h + 1) * group; i++)
                    attend(q + i * width, keys, values, position[r] + 1, width, scores, second + r * inner + i * width);
            }
        }
        product(w->wo, s->half, dim, inner, second, rows, w->o_bias, added);
        for (int64_t i = 0; i < rows * dim; i++) x[i] += added[i];
        for (int64_t r = 0; r < rows; r++) norm(x + r * dim, w->ffn_norm, dim, s->eps, normed + r * dim);
        product(w->w13, s->half, 2 * s->hidden, dim, normed, rows, NULL, first);
        second = first + rows * 2 * s->hidden;
        for (int64_t r = 0; r < rows; r++) gate(first + r * 2 * s->hidden, s->hidden, second + r * s->hidden);
        product(w->w2, s->half, dim, s->hidden, second, rows, NULL, added);
        for (int64_t i = 0; i < rows * dim; i++) x[i] += added[i];
    }
    free(normed);
}

// ---- draws

struct draw {
    float inverse_temperature, top_p, best;
    int64_t value;
};

INLINE float largest(const float *p, int64_t n) {
    vec most = (vec){} - INFINITY;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const vec v = load(p + i);
        const ivec larger = v > most;
        most = (vec)(((ivec)v & larger) | ((ivec)most & ~larger));
    }
    float found = -INFINITY;
    for (int k = 0; k < LANES; k++) found = most[k] > found ? most[k] : found;
    for (; i < n; i++) found = p[i] > found ? p[i] : found;
    return found;
}

INLINE void consider(struct draw *d, int64_t rank, int64_t value, float log_prob, float mass, float noise) {
    const float score = log_prob * d->inverse_temperature + noise;
    if ((rank == 0 || mass <= d->top_p) && score > d->best) d->best = score, d->value = value;
}

// Draw one of n logits, which are overwritten: the argmax of log p / temperature + noise over the likeliest values. Of
// equal logits the one with the lower index ranks first. recent: values that are drawn again with freer options, from
// the noise after `candidates`, or null. Reference implementation: engine/models/sampling.py.
static int64_t draw(float *left, int64_t n, float temperature, float top_p, int64_t last, const float *noise,
                    const float *other_noise, const int64_t *recent, int64_t window) {
    const float greedy = 1e30f;
    const float most = largest(left, n);
    float mass = 0;
    vec sums = {};
    for (int64_t i = 0; i < n; i += LANES) {
        const int64_t count = n - i < LANES ? n - i : LANES;
        const vec shifted = some(left + i, count) - most;
        vec mapped = exponential(shifted);
        memcpy(left + i, &shifted, count * sizeof(float));
        for (int64_t k = count; k < LANES; k++) mapped[k] = 0;
        sums += mapped;
    }
    const float log_sum = logf(total(sums));
    const float inverse_temperature = temperature == 0 ? greedy : 1.0f / (temperature < 1e-5f ? 1e-5f : temperature);
    struct draw first = {inverse_temperature, top_p, -INFINITY, 0};
    struct draw second = {temperature == 0 ? greedy : 1.0f / REPETITION_TEMPERATURE, REPETITION_TOP_P, -INFINITY, 0};
    const float limit = recent && REPETITION_TOP_P > top_p ? REPETITION_TOP_P : top_p;
    for (int64_t rank = 0; rank < last && rank < n && mass <= limit; rank++) {  // later values are not kept
        const float highest = largest(left, n);
        int64_t value = 0;
        while (value < n - 1 && left[value] != highest) value++;
        left[value] = -INFINITY;
        mass += expf(highest - log_sum);
        consider(&first, rank, value, highest - log_sum, mass, noise[rank]);
        if (recent) consider(&second, rank, value, highest - log_sum, mass, other_noise[rank]);
    }
    for (int64_t i = 0; i < window; i++)
        if (recent[i] == first.value) return second.value;
    return first.value;
}

// ---- the operators

typedef struct library *Library;
typedef struct tensor *Tensor;
int32_t aoti_torch_library_init_def(const char *, const char *, uint32_t, Library *);
int32_t aoti_torch_library_init_impl(const char *, const char *, const char *, uint32_t, Library *);
int32_t aoti_torch_library_def(Library, const char *);
int32_t aoti_torch_library_impl(Library, const char *, void (*)(uint64_t *, uint64_t, uint64_t));
int32_t aoti_torch_get_data_ptr(Tensor, void **);
int32_t aoti_torch_get_size(Tensor, int64_t, int64_t *);
int32_t aoti_torch_get_stride(Tensor, int64_t, int64_t *);
int32_t aoti_torch_clone(Tensor, Tensor *);
int32_t aoti_torch_delete_tensor_object(Tensor);

static void *data_of(uint64_t tensor) {
    void *data = NULL;
    aoti_torch_get_data_ptr((Tensor)tensor, &data);
    return data;
}

static int64_t size_of(uint64_t tensor, int64_t dimension) {
    int64_t size = 0;
    aoti_torch_get_size((Tensor)tensor, dimension, &size);
    return size;
}

// arguments: x, cache, slots, positions, the address of the stack [1]. The first is replaced by the result. Owns the tensors.
static void run_rows(uint64_t *arguments, uint64_t inputs, uint64_t results) {
    (void)inputs, (void)results;
    const uint64_t x = arguments[0], cache = arguments[1], slots = arguments[2], positions = arguments[3];
    const struct stack *stack = *(const struct stack **)data_of(arguments[4]);
    Tensor out = NULL;
    check_memory(aoti_torch_clone((Tensor)x, &out) == 0);
    run(stack, size_of(x, 0), data_of((uint64_t)out), data_of(cache), size_of(cache, 2), size_of(cache, 4),
        data_of(slots), data_of(positions));
    for (int i = 0; i < 5; i++) aoti_torch_delete_tensor_object((Tensor)arguments[i]);
    arguments[0] = (uint64_t)out;
}

static int64_t stride_of(uint64_t tensor, int64_t dimension) {
    int64_t stride = 0;
    aoti_torch_get_stride((Tensor)tensor, dimension, &stride);
    return stride;
}

// arguments: logits [B, V], temperatures, top_p and top_k [B, 1], noise [B, C], or [B, 2, C] with recent values [B, W]. The
// first is replaced by the values drawn [B, 1]. Owns the tensors.
static void draw_rows(uint64_t *arguments, uint64_t inputs, uint64_t results) {
    (void)inputs, (void)results;
    const uint64_t logits = arguments[0], noise = arguments[4], recent = arguments[5];
    const int64_t rows = size_of(logits, 0), n = size_of(logits, 1), window = size_of(recent, 1);
    const float *temperature = data_of(arguments[1]), *top_p = data_of(arguments[2]), *noises = data_of(noise);
    const int64_t *top_k = data_of(arguments[3]), *before = window ? data_of(recent) : NULL;
    const int64_t row_stride = stride_of(noise, 0), other = window ? stride_of(noise, 1) : 0;
    const int64_t candidates = size_of(noise, window ? 2 : 1);
    Tensor out = NULL;
    check_memory(aoti_torch_clone((Tensor)arguments[3], &out) == 0);
    int64_t *values = data_of((uint64_t)out);
    float *left = allocate(n);
    for (int64_t r = 0; r < rows; r++) {
        memcpy(left, (const float *)data_of(logits) + r * n, n * sizeof(float));
        const float *own = noises + r * row_stride;
        const int64_t last = top_k[r] < candidates ? top_k[r] : candidates;
        const int64_t *row = before ? before + r * window : NULL;
        values[r] = draw(left, n, temperature[r], top_p[r], last, own, own + other, row, window);
    }
    free(left);
    for (int i = 0; i < 6; i++) aoti_torch_delete_tensor_object((Tensor)arguments[i]);
    arguments[0] = (uint64_t)out;
}

// Register `reprise::run_rows` and `reprise::draw_rows`. Returns 0 if that succeeded. The libraries live as long as the
// process.
int reprise_register(void) {
    Library defined = NULL, implemented = NULL;
    return aoti_torch_library_init_def("reprise", "rows.c", 0, &defined) ||
           aoti_torch_library_def(
               defined, "run_rows(Tensor x, Tensor(a!) cache, Tensor slots, Tensor positions, Tensor stack) -> Tensor") ||
           aoti_torch_library_def(defined, "draw_rows(Tensor logits, Tensor temperature, Tensor top_p, Tensor top_k, "
                                           "Tensor noise, Tensor recent) -> Tensor") ||
           aoti_torch_library_init_impl("reprise", "CPU", "rows.c", 0, &implemented) ||
           aoti_torch_library_impl(implemented, "run_rows", run_rows) ||
           aoti_torch_library_impl(implemented, "draw_rows", draw_rows);
}
