// The trainer's CUDA kernels as plain functions of device pointers. They are queued on `stream` and return at once;
// a launch that the driver refuses raises std::runtime_error. Element type is bf16 where `half` says so, else fp32;
// sums are always fp32. N rows, C width, M width of the MLP, H heads, D head width, V vocabulary.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace khost::trainer::cuda {

// sum = x + delta (no delta: x itself, and `sum` is not written), y = sum / rms(sum) * weight, inverse = 1 / rms(sum).
struct AddNorm {
  bool half;
  int64_t rows, width;
  const void *x, *delta, *weight;
  void *sum, *y;
  float* inverse;
  float epsilon;
};
void add_norm(const AddNorm& call, cudaStream_t stream);

// dx is the gradient of x and of delta alike. `dsum` may be null. `partial` is memory to work in.
struct AddNormBackward {
  bool half;
  int64_t rows, width;
  const void *sum, *weight, *dsum, *dy;
  const float* inverse;
  void *dx, *dweight;
  float* partial;  // [norm_blocks(rows), C]
};
int64_t norm_blocks(int64_t rows);
void add_norm_backward(const AddNormBackward& call, cudaStream_t stream);

// Rows of gate_up are [gate | up].
void swiglu(bool half, const void* gate_up, void* out, int64_t rows, int64_t width, cudaStream_t stream);
void swiglu_backward(bool half, const void* gate_up, const void* dout, void* dgate_up, int64_t rows, int64_t width,
                     cudaStream_t stream);

// Writes rows [q heads | k heads | v heads], q and k turned by the angle of the row's position times `direction`.
struct Rotate {
  bool half;
  int64_t rows, heads, kv_heads, head_width;
  const void *q, *k, *v;
  int64_t q_stride, k_stride, v_stride;  // from row to row, in elements
  void* out;
  const int32_t* positions;
  const float *cosine, *sine;  // [positions, D/2]
  float direction;
};
void rotate(const Rotate& call, cudaStream_t stream);

// Of softmax(logits * scale): log-probability of the target, entropy, log of the sum of exponentials.
struct Score {
  int64_t rows, vocabulary;
  const float* logits;
  const int64_t* targets;
  float scale;
  float *logp, *entropy, *log_sum;
};
void score(const Score& call, cudaStream_t stream);

// Gradient of the logits, given those of logp (g) and of the entropy (e).
struct ScoreBackward {
  bool half;  // of dlogits
  int64_t rows, vocabulary;
  const float* logits;
  const int64_t* targets;
  float scale;
  const float *entropy, *log_sum, *g, *e;
  void* dlogits;
};
void score_backward(const ScoreBackward& call, cudaStream_t stream);

// One AdamW step over flat memory; rounds the weights where `rounded` is given.
struct AdamW {
  int64_t count;
  float *weight, *first, *second;
  const float* grad;
  const float* decay;  // 1 where weight decay applies; null: nowhere
  void* rounded;       // bf16
  float grad_scale, beta1, beta2, epsilon, rate, rate_decay, bias1, bias2;  // bias2 is already a square root
};
void adamw(const AdamW& call, cudaStream_t stream);

}  // namespace khost::trainer::cuda
