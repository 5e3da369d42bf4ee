const base = require('@jupyterlab/testutils/lib/jest-config')(__dirname);

const [esModules] = base.transformIgnorePatterns;

module.exports = {
  ...base,
  reporters: ['default'],
  testTimeout: 30_000, // milliseconds; React renders in an idle moment, which a busy machine seldom has
  testEnvironment: './test/environment.js',
  transformIgnorePatterns: [
    esModules.replace(
      '(?!',
      '(?!@jupyterlab/|@rjsf|ai/|ai7/|@ai-sdk|@workflow|zod/|@vercel|eventsource-parser|diff|'
    )
  ]
};
