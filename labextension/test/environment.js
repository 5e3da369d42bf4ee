const { default: LabEnvironment } = require('@jupyterlab/testing/lib/jest-env');

/** What jsdom lacks of a browser, and Node has. */
module.exports = class extends LabEnvironment {
  constructor(...args) {
    super(...args);
    Object.assign(this.global, {
      AbortController,
      AbortSignal,
      ReadableStream,
      TextDecoder,
      TextDecoderStream,
      TextEncoder,
      TransformStream,
      structuredClone,
      ResizeObserver: class {
        observe() {}
        disconnect() {}
      }
    });
  }
};
