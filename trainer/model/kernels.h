// Row loops of the decoder on the CPU, over plain fp32 arrays. Every function works on a range of rows, so that
// callers decide about threads; none allocates. Compiled for AVX-512, AVX2 and baseline, chosen at load time.
#pragma once

#include <cstdint>

namespace khost::trainer::kernels {

// y = x / sqrt(mean(x^2) + epsilon) * weight; keeps 1/sqrt(...) of each row for the backward pass.
void rms_norm(const float* x, const float* weight, float* y, float* inverse, int64_t rows, int64_t width,
              float epsilon);
// dx is written, dweight is added to.
void rms_norm_backward(const float* x, const float* weight, const float* inverse, const float* dy, float* dx,
                       float* dweight, int64_t rows, int64_t width);

// A row of gate_up is [gate | up], each of `width`: out = silu(gate) * up.
void swiglu(const float* gate_up, float* out, int64_t rows, int64_t width);
void swiglu_backward(const float* gate_up, const float* dout, float* dgate_up, int64_t rows, int64_t width);

// Rotates the pairs (i, i + size/2) of one head in place, or back when `sine_sign` is -1.
void rotate(const float* from, float* to, const float* cosine, const float* sine, int64_t size, float sine_sign);

// One query head of `size` over `length` cached keys and values, contiguous in position: softmax(q k) v.
// `scores` is room for `length` floats.
void attend(const float* query, const float* keys, const float* values, float* out, float* scores, int64_t length,
            int64_t size, float scale);

}  // namespace khost::trainer::kernels
